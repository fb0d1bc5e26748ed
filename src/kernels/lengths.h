#pragma once

// Samples of different lengths in one batch, padded to the longest.

#include <cstdint>

#include "core/host_device.h"

namespace dtrain::kernels {

// How many of a sample's padded `positions` are valid: its length, limited to [0, positions].
DTRAIN_HD inline int64_t valid_length(int64_t length, int64_t positions) {
  return length < 0 ? 0 : length < positions ? length : positions;
}

}  // namespace dtrain::kernels
