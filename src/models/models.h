#pragma once

// The networks that more than one task may use, with torchvision's parameter names and shapes.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace dtrain::models {

// input [B, 3, H, W] -> output [B, outputs].
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor input) = 0;
  virtual std::string head_prefix() const = 0;  // names of the last layer begin with it ("fc.")
};

struct NetworkOptions {
  int64_t outputs = 3;
  double dropout = 0.3;   // headpose_cnn
  uint64_t seed = 1;      // initial weights are keyed by (seed, parameter name): equal on all ranks
};

std::shared_ptr<Network> make_network(const std::string& name, const NetworkOptions&);  // ConfigError: unknown
std::vector<std::string> network_names();

void set_channels_last(torch::nn::Module&);       // 4-D parameters, in place (before a reducer takes them)
void freeze_batch_norm(torch::nn::Module&);       // eval mode of every batch norm layer; call after train()

// Copies tensors by name. Strict; when only the last layer differs it keeps its fresh values. Returns lines that say what
// was loaded and what was not; CheckpointError with the list when anything else is missing, unexpected or misshapen.
std::vector<std::string> load_initial_weights(Network&, const checkpoint::TensorFile&);

}  // namespace dtrain::models
