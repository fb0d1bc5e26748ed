#pragma once

// cuDNN wants all weights of an LSTM, GRU or RNN in one piece of memory, in an order of its own; moving a module tears
// them apart, and then each call gathers them anew.

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain::tasks {

struct RecurrentWeights {
  enum Kind : int64_t { kRnn = 1, kLstm = 2, kGru = 3 };  // cuDNN's numbers; tanh and ReLU lie in memory alike
  Kind kind = kLstm;
  std::vector<at::Tensor> weights;  // by layer, then by direction: of the input, of the state, biases, projection
  int64_t per_layer = 0;            // of them in one layer and direction
  int64_t input = 0, hidden = 0;    // sizes
  int64_t projection = 0;           // size of the projected state; 0: none
  int64_t layers = 0;
  bool bidirectional = false;
};

// Those that `module` itself has, read off the names and shapes of its parameters, because a traced module keeps
// nothing else; nullopt if it is none of the three.
std::optional<RecurrentWeights> recurrent_weights(const torch::nn::Module& module);

// Of all modules in `root` that are on a GPU, in place, as torch.nn.RNNBase.flatten_parameters does it.
void flatten_recurrent_weights(torch::nn::Module& root);

}  // namespace dtrain::tasks
