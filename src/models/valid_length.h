#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace dtrain::models {

// How many of a sample's padded `positions` count: its length, but none below zero and no more than there are.
DTRAIN_HD inline int64_t valid_length(int64_t length, int64_t positions) {
  return length < 0 ? 0 : length < positions ? length : positions;
}

}  // namespace dtrain::models
