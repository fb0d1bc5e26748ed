#include "layers/lengths.h"

#include <torch/types.h>

namespace dtrain::layers {

at::Tensor valid_positions(const at::Tensor& lengths, int64_t positions) {
  return at::arange(positions, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

at::Tensor padded_positions(const at::Tensor& lengths, int64_t positions) {
  return at::arange(positions, lengths.options()).unsqueeze(0) >= lengths.unsqueeze(1);
}

}  // namespace dtrain::layers
