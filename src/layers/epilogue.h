#pragma once

// What follows a convolution or a normalization: a residual, an activation, max-pooling. These are
// bound by memory, so the layers of dtrain compute them in the pass that writes the normalized
// values (BatchNormImpl::forward_with), and max-pooling together with its activation.

#include "kernels/batch_norm_types.h"

namespace dtrain::layers {

using kernels::Activation;
using kernels::Epilogue;

// The epilogue in operations of its own. May change x, which must not be used again.
at::Tensor apply_epilogue(const Epilogue&, at::Tensor x);

// max_pool(activation(x)) of x [B, C, H, W], as in an Epilogue. On the CPU one pass if x
// is channels_last.
at::Tensor max_pool(const at::Tensor& x, Activation);

}  // namespace dtrain::layers
