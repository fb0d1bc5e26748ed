#pragma once

// The activations that may follow a convolution or a normalization in the same pass over memory.
// Their arithmetic, for numbers and for vectors, is in batch_norm_body.inc.

#include <cstdint>

namespace dtrain::kernels {

enum class Activation : uint8_t {
  kNone,
  kReLU,   // max(x, 0)
  kReLU6,  // min(max(x, 0), 6)
};

}  // namespace dtrain::kernels
