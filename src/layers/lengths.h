#pragma once

// Samples of different lengths in one batch, padded to the longest (kernels/lengths.h): which
// positions of a sample are valid.

#include <cstdint>

namespace at {
class Tensor;
}

namespace dtrain::layers {

// Bool [B, positions], true at the valid positions of each sample, which are those below
// lengths[b]. lengths int64 [B]; the result is on their device.
at::Tensor valid_positions(const at::Tensor& lengths, int64_t positions);
// True at the others
at::Tensor padded_positions(const at::Tensor& lengths, int64_t positions);

}  // namespace dtrain::layers
