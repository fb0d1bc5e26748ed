#pragma once

// What follows a convolution or a normalization: a residual, an activation, max-pooling. These are
// bound by memory, so the layers of dtrain compute them in the pass that writes the normalized
// values (BatchNormImpl::forward_with), and max-pooling together with its activation.

#include <torch/types.h>

#include "layers/activation.h"

namespace dtrain::layers {

// y = max_pool(activation(x + residual))
struct Epilogue {
  Activation activation = Activation::kNone;
  at::Tensor residual = {};  // same shape as x; undefined: none
  // Of 2 x 2 with stride 2, for x [B, C, H, W]; an odd last row or column is left out
  bool max_pool = false;
};

// The epilogue in operations of its own. May change x, which must not be used again.
at::Tensor apply_epilogue(const Epilogue&, at::Tensor x);

// max_pool(activation(x)) of x [B, C, H, W], as in an Epilogue. On the CPU one pass if x
// is channels_last.
at::Tensor max_pool(const at::Tensor& x, Activation);

}  // namespace dtrain::layers
