#pragma once

// Copies given weights into a network by name. Nothing is copied unless all of it fits.

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/network.h"

namespace dtrain::models {

// Copies every parameter and buffer. The names and shapes must be exactly those of the module; otherwise
// CheckpointError that names the first difference.
void load_all(torch::nn::Module&, const checkpoint::NamedTensors&);

// Weights to start training from, converted to the network's precision and device. They must match the network except
// for the last layer, which keeps its initial values if it differs. Returns lines that say what was loaded and what was
// not. CheckpointError that lists all other tensors that are missing, unexpected or of another shape.
std::vector<std::string> load_initial_weights(Network&, const checkpoint::TensorFile&);

}  // namespace dtrain::models
