#pragma once

// Samples of different lengths in one batch, padded to the longest: which positions of a sample are valid, and which
// samples have similar lengths.

#include <cstdint>
#include <vector>

#include "core/host_device.h"

namespace at {
class Tensor;
}

namespace dtrain::layers {

// How many of a sample's padded `positions` are valid: its length, limited to [0, positions].
DTRAIN_HD inline int64_t valid_length(int64_t length, int64_t positions) {
  return length < 0 ? 0 : length < positions ? length : positions;
}

// Bool [B, positions], true at the valid positions of each sample, which are those below lengths[b]. lengths int64 [B];
// the result is on their device.
at::Tensor valid_positions(const at::Tensor& lengths, int64_t positions);

// Samples [begin, begin + count) of an order, of at most `longest` positions.
struct LengthGroup {
  int64_t begin = 0, count = 0, longest = 0;
  bool operator==(const LengthGroup&) const = default;
};
struct LengthGroups {
  std::vector<int64_t> order;  // positions in the batch, by decreasing length; equal lengths keep their order
  std::vector<LengthGroup> groups;
};
// Divides a batch of `count` samples into groups of at most `most` samples of similar lengths. Pure.
LengthGroups group_by_length(const int64_t* lengths, int64_t count, int64_t most);

}  // namespace dtrain::layers
