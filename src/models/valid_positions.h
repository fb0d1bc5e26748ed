#pragma once

#include <torch/torch.h>

namespace dtrain::models {

// Bool [B, positions], true at the positions of each sample that are not padding: those below lengths[b]. lengths int64
// [B]; the result is on their device.
inline at::Tensor valid_positions(const at::Tensor& lengths, int64_t positions) {
  return at::arange(positions, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

}  // namespace dtrain::models
