#pragma once

// The layers that networks share, as nodes of a graph. Each method reads the layer's tensors by the
// layer's name and returns the name of its output.

#include <string>
#include <string_view>
#include <vector>

#include "catalog/networks.h"
#include "export/graph.h"
#include "export/weights.h"

namespace dtrain::exporting {

class Layers {
 public:
  Layers(Builder& graph, const Weights& weights) : graph_(graph), weights_(weights) {}

  // One or two spatial dimensions, by the shape of the weight. `norm`: the batch norm that follows
  // it, which is folded in; "": none.
  std::string conv(const std::string& x, const std::string& name, const catalog::Convolution&,
                   const std::string& norm = "");
  std::string linear(const std::string& x, const std::string& name);  // [batch, in] -> [batch, out]
  std::string relu(const std::string& x) { return graph_.add("Relu", {x}); }
  std::string relu6(const std::string& x);
  std::string max_pool(const std::string& x, const catalog::MaxPooling&);
  std::string global_average(const std::string& x);  // [batch, C, H, W] -> [batch, C]
  // One layer of torch's LSTM: weight_ih_l<n> and so on of module `name`. Torch orders the gates i,
  // f, g, o, ONNX orders them i, o, f, g. x is [time, batch, in]; lengths int32 [batch] or "";
  // hidden and cell are the initial states or "". outputs: the names, "" if not needed, of all
  // steps [time, 1, batch, H], the last valid hidden state [1, batch, H] and its cell.
  void lstm(const std::string& x, const std::string& name, int64_t layer,
            const std::string& lengths, const std::string& hidden, const std::string& cell,
            std::vector<std::string> outputs);
  // All layers of a stack, from states of zeros. `outputs`: of the last layer, as above; `states`:
  // the end of the name of all steps of a layer before it.
  void lstm(std::string x, const catalog::LstmStack&, const std::string& lengths,
            std::string_view states, std::vector<std::string> outputs);
  int64_t outputs_of(const std::string& linear) const {
    return weights_.at(linear + ".weight", 2).shape[0];
  }

 private:
  Builder& graph_;
  const Weights& weights_;
};

}  // namespace dtrain::exporting
