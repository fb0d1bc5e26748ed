#pragma once

// Samples of different lengths in one batch, padded to the longest: which positions of a sample
// are valid.

#include <cstdint>

#include "core/host_device.h"

namespace at {
class Tensor;
}

namespace dtrain::layers {

// How many of a sample's padded `positions` are valid: its length, limited to [0, positions].
DTRAIN_HD inline int64_t valid_length(int64_t length, int64_t positions) {
  return length < 0 ? 0 : length < positions ? length : positions;
}

// Bool [B, positions], true at the valid positions of each sample, which are those below
// lengths[b]. lengths int64 [B]; the result is on their device.
at::Tensor valid_positions(const at::Tensor& lengths, int64_t positions);

}  // namespace dtrain::layers
