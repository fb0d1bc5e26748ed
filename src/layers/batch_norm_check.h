#pragma once

// A comparison of dtrain's own GPU kernels of batch norm with LibTorch's operators. Kernels that give wrong numbers on
// a machine that nobody has tried must not train a network there.

#include <torch/types.h>

#include <optional>
#include <string>

namespace dtrain::layers::batch_norm::gpu {

// What differs by more than rounding, for example "the gradient of the input, of [4, 16, 20, 26] channels last: by 0.3
// of its largest value"; nullopt if nothing does. Computes small tensors of each class of shapes, forward and backward,
// in float64 with LibTorch. Takes milliseconds, waits for the device, draws no random numbers. x is of type `dtype`.
std::optional<std::string> disagreement(at::Device, at::ScalarType dtype);

}  // namespace dtrain::layers::batch_norm::gpu
