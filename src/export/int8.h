#pragma once

// Calibrates a float32 graph on samples of a data file, quantises it and measures both, so that what INT8 costs is
// known before the file is used. Two ways of choosing ranges compete, the whole range seen and the range of least
// squared error; the one whose outputs are nearer to float32's on the calibration samples wins. On the CPU.

#include <torch/torch.h>

#include <functional>
#include <string>

#include "export/graph.h"
#include "export/quantise.h"

namespace dtrain::exporting {

// Calls `visit(inputs [B, 3, S, S], targets [B] int64 | [B, outputs] float32)` for batch after batch; the same samples
// in the same order each time.
using Visit = std::function<void(const at::Tensor& inputs, const at::Tensor& targets)>;
using Batches = std::function<void(const Visit&)>;

// Adds float32 values, of any shape, to the counts of the histogram's bins; those beyond its range are left out.
void count(const at::Tensor& values, Histogram&);

struct Int8Graph {
  Graph graph;
  std::string clipping;  // "min-max" or "least squared error"
  // Root mean square of float32's outputs, and of the difference to them, on the calibration samples.
  double output_rms = 0, difference_rms = 0;
};

Int8Graph to_int8(const Graph&, const Batches& calibration);

// top-1 in percent for classes, else the mean absolute error of outputs × `output_scale`.
struct Score {
  std::string name;  // "top-1" or "mean absolute error"
  double value = 0;
  int64_t samples = 0;
};
Score score(const Graph&, const Batches&, double output_scale);

}  // namespace dtrain::exporting
