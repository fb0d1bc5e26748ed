#pragma once

// The layers that networks share, as nodes of a graph. Each method reads the layer's tensors by the
// layer's name and returns the name of its output.

#include <string>

#include "export/graph.h"
#include "export/weights.h"

namespace dtrain::exporting {

struct ConvOptions {
  int64_t stride = 1, padding = 0, groups = 1;
  std::string norm = {};  // the batch norm that follows it, folded in; "": none
};

class Layers {
 public:
  Layers(Builder& graph, const Weights& weights) : graph_(graph), weights_(weights) {}

  // One or two spatial dimensions, by the shape of the weight.
  std::string conv(const std::string& x, const std::string& name, const ConvOptions&);
  std::string linear(const std::string& x, const std::string& name);  // [batch, in] -> [batch, out]
  std::string relu(const std::string& x) { return graph_.add("Relu", {x}); }
  std::string relu6(const std::string& x);
  std::string max_pool(const std::string& x, int64_t kernel, int64_t stride, int64_t padding);
  std::string global_average(const std::string& x);  // [batch, C, H, W] -> [batch, C]
  // One layer of torch's LSTM: weight_ih_l<n> and so on of module `name`. Torch orders the gates i,
  // f, g, o, ONNX orders them i, o, f, g. x is [time, batch, in]; lengths int32 [batch] or "";
  // hidden and cell are the initial states or "". outputs: the names, "" if not needed, of all
  // steps [time, 1, batch, H], the last valid hidden state [1, batch, H] and its cell.
  void lstm(const std::string& x, const std::string& name, int64_t layer,
            const std::string& lengths, const std::string& hidden, const std::string& cell,
            std::vector<std::string> outputs);
  int64_t outputs_of(const std::string& linear) const {
    return weights_.at(linear + ".weight", 2).shape[0];
  }

 private:
  Builder& graph_;
  const Weights& weights_;
};

}  // namespace dtrain::exporting
