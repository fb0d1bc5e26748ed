#pragma once

// cuDNN needs all weights of an LSTM, GRU or RNN in one piece of memory, in its own order. Moving a
// module separates them, and every call would then gather them again.

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain::tasks {

struct RecurrentWeights {
  // Numbers of cuDNN; RNNs with tanh and with ReLU have the same layout
  enum Kind : int64_t { kRnn = 1, kLstm = 2, kGru = 3 };
  Kind kind = kLstm;
  // Ordered by layer, then by direction: weights of the input, of the state, biases, projection
  std::vector<at::Tensor> weights;
  int64_t per_layer = 0;          // number of weights in one layer and direction
  int64_t input = 0, hidden = 0;  // sizes
  int64_t projection = 0;         // size of the projected state; 0: none
  int64_t layers = 0;
  bool bidirectional = false;
};

// The weights of `module` itself, found by the names and shapes of its parameters, because a traced
// module keeps nothing else. nullopt if it is none of the three.
std::optional<RecurrentWeights> recurrent_weights(const torch::nn::Module& module);

// Does for all modules in `root` on a GPU what torch.nn.RNNBase.flatten_parameters does, in place.
void flatten_recurrent_weights(torch::nn::Module& root);

}  // namespace dtrain::tasks
