#pragma once

#include <torch/torch.h>

#include "checkpoint/safetensors.h"

namespace dtrain::models {

// Copies every parameter and buffer by name. The names and shapes must be exactly those of the module: CheckpointError
// naming the first difference otherwise (nothing has been changed then).
void load_all(torch::nn::Module&, const checkpoint::NamedTensors&);

// Floating-point parameters and buffers to `dtype`, in place. (LibTorch's Module::to converts counters too.)
void convert_floating_point(torch::nn::Module&, at::ScalarType dtype);

}  // namespace dtrain::models
