#pragma once

#include <torch/torch.h>

namespace dtrain::tasks {

// In float32 at least, whatever autocast made of it: what losses are computed in.
inline at::Tensor wide(const at::Tensor& output) {
  return output.scalar_type() == at::kDouble ? output : output.to(at::kFloat);
}

}  // namespace dtrain::tasks
