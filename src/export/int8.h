#pragma once

// Calibrates a float32 graph on samples of a data file, quantizes it and scores both, so that the
// loss of accuracy is known before the file is used. Activation ranges are chosen in two ways, as
// the whole observed range and as the range of least squared error; the one whose outputs are
// closer to those of float32 on the calibration samples is used. Runs on the CPU.

#include <torch/types.h>

#include <functional>
#include <string>

#include "export/graph.h"
#include "export/quantize.h"

namespace dtrain::exporting {

// Calls visit(inputs [B, 3, S, S], targets [B] int64 | [B, outputs] float32) for each batch; with
// the same samples in the same order each time.
using Visit = std::function<void(const at::Tensor& inputs, const at::Tensor& targets)>;
using Batches = std::function<void(const Visit&)>;

// Adds float32 values of any shape to the counts of the histogram's bins; values outside its range
// are ignored.
void count(const at::Tensor& values, Histogram&);

struct Int8Graph {
  Graph graph;
  std::string clipping;  // "min-max" or "least squared error"
  // Root mean squares, on the calibration samples, of the float32 outputs and of the difference
  // to them.
  double output_rms = 0, difference_rms = 0;
};

Int8Graph to_int8(const Graph&, const Batches& calibration);

// Top-1 accuracy in percent for classes, else the mean absolute error of outputs × output_scale.
struct Score {
  std::string name;  // "top-1" or "mean absolute error"
  double value = 0;
  int64_t samples = 0;
};
Score score(const Graph&, const Batches&, double output_scale);

}  // namespace dtrain::exporting
