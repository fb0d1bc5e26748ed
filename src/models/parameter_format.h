#pragma once

// The precision and the memory format of a module's parameters, changed in place: before a gradient
// reducer or an optimizer takes the parameters.

#include <torch/nn/module.h>

namespace dtrain::models {

// Converts floating-point parameters and buffers. Counters keep their type, unlike with
// LibTorch's Module::to().
void convert_floating_point(torch::nn::Module&, at::ScalarType);

void set_channels_last(torch::nn::Module&);  // 4-D parameters only

}  // namespace dtrain::models
