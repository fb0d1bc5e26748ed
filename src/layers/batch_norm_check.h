#pragma once

// A comparison of dtrain's own GPU kernels of batch norm with its definition. Kernels that
// give wrong numbers on a machine that was never tried must not train a network there.

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <optional>
#include <string>

#include "kernels/batch_norm_blocks.h"

namespace dtrain::layers::batch_norm {

// What differs by more than rounding, for example "the gradient of the input of an input [4, 16,
// 40, 26] with channels last differs by 0.3 of its largest value", or why that cannot be found out;
// nullopt if nothing differs. Computes small tensors of each class of shapes, forward and backward,
// in float64 by the definition of batch norm. Takes milliseconds, waits for the device, draws no
// random numbers. x is of type `dtype`. Throws errors of LibTorch that the training must report:
// prevents_comparison() is false for them.
std::optional<std::string> disagreement(const kernels::batch_norm::blocks::Runner&, at::Device,
                                        at::ScalarType dtype);

// Whether an error in a comparison says no more than that the kernels cannot be compared on this
// device, which goes on without them: a launch that it does not support, an operator that a library
// refuses. Not if the device has failed or its memory is full. Pure.
bool prevents_comparison(const c10::Error&, bool device_works);

}  // namespace dtrain::layers::batch_norm
