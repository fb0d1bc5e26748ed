#pragma once

// What all networks have in common.

#include <torch/nn/module.h>

#include <cstdint>
#include <string>

namespace dtrain::models {

// A network with one input. Thread-safety: like any torch module, one forward pass at a time.
class Network : public torch::nn::Module {
 public:
  // Images [B, 3, H, W] -> [B, outputs]; others say what they take
  virtual at::Tensor forward(at::Tensor input) = 0;
  // The names of the last layer's parameters begin with it ("fc.")
  virtual std::string head_prefix() const = 0;
};

struct NetworkOptions {
  int64_t outputs = 3;
  // Not used by resnet; above 0, forward in training mode needs a RandomScope
  double dropout = 0.3;
  // Initial weights depend on (seed, parameter name): they are equal on all ranks
  uint64_t seed = 1;
  int64_t image_size = 224;  // simple_cnn: side of its images in pixels
  // Saves memory: each block saves only its input and is computed again in backward
  bool checkpointing = false;
};

}  // namespace dtrain::models
