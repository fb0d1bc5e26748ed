#pragma once

// Runs the graph of a convolutional network with ATen, in float32 or quantised: what an ONNX runtime would compute, to
// calibrate a graph and to measure it before it leaves. Thread-safety: run() of one object from one thread.

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "export/graph.h"

namespace dtrain::exporting {

class GraphRunner {
 public:
  explicit GraphRunner(const Graph&);  // borrows it; Error for an operator that is not of convolutional networks

  // `input` is the graph's one input; returns its one output. `observe` sees the input and each node's first output.
  using Observe = std::function<void(const std::string& name, const at::Tensor&)>;
  at::Tensor run(const at::Tensor& input, const Observe& observe = {}) const;

 private:
  const Graph& graph_;
  std::map<std::string, at::Tensor> constants_;
  std::map<std::string, size_t> last_reader_;  // index of the node after which a value is no longer needed
};

}  // namespace dtrain::exporting
