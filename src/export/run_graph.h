#pragma once

// Runs the graph of a convolutional network, float32 or quantized, with ATen. It computes what an
// ONNX runtime would compute; used to calibrate a graph and to score it before it is written.
//
// Thread-safety: run() of one object from one thread at a time.

#include <torch/types.h>

#include <functional>
#include <map>
#include <string>

#include "export/graph.h"

namespace dtrain::exporting {

class GraphRunner {
 public:
  explicit GraphRunner(const Graph&);  // borrows it

  // `input` is the graph's only input; returns its only output. `observe` receives the input and
  // each node's first output. Error for an operator that convolutional networks do not have.
  using Observe = std::function<void(const std::string& name, const at::Tensor&)>;
  at::Tensor run(const at::Tensor& input, const Observe& observe = {}) const;

 private:
  const Graph& graph_;
  std::map<std::string, at::Tensor> constants_;
  std::map<std::string, size_t> last_reader_;  // index of the last node that needs the value
};

}  // namespace dtrain::exporting
