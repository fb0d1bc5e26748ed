#pragma once

// Copies given weights into a network by name. Nothing is copied unless all of it fits.

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/network.h"

namespace dtrain::models {

// Copies every parameter and buffer. The names and shapes must be exactly those of the module;
// otherwise CheckpointError that names the first difference.
void load_all(torch::nn::Module&, const checkpoint::NamedTensors&);

// The tensors of a file that another program may have written, under the names and in the shapes of
// the module, as far as they are known. What wraps a network in Python puts a prefix before all
// names ("module." of DistributedDataParallel, "_orig_mod." of torch.compile, "model." of
// Lightning), several of them too ("module.model."), and AveragedModel adds a counter. Counters may
// be of any number type, and of shape [1].
struct Unwrapped {
  checkpoint::NamedTensors tensors;
  std::string prefix;                // that was removed from all names
  std::vector<std::string> notices;  // what was changed
};
Unwrapped unwrapped(const torch::nn::Module&, checkpoint::NamedTensors);

// CheckpointError that names the first tensor of `file` with a value that is not finite. A
// TorchScript file may have buffers for which that is right (a mask of -inf), so those are accepted
// where the module's own is not finite either. `prefix`: what the tensors have before the names of
// the module. Reads each tensor once.
void check_finite(const torch::nn::Module&, const checkpoint::NamedTensors&,
                  const std::string& file, const std::string& prefix = "");

// Weights to start training from, converted to the network's precision and device. They must match
// the network except for the last layer, which keeps its initial values if it differs. Returns
// lines that say what was loaded and what was not. CheckpointError that lists all other tensors
// that are missing, unexpected or of another shape.
std::vector<std::string> load_initial_weights(Network&, const checkpoint::TensorFile&);

}  // namespace dtrain::models
