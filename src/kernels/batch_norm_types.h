#pragma once

// What batch norm is computed from and what it gives, as tensors, and what follows a normalization
// in the same pass over memory. Tensors of one call are on one device; x, dy and the residual in
// one memory format, which results have too.

#include <torch/types.h>

#include "kernels/activation.h"

namespace dtrain::kernels {

// y = max_pool(activation(x + residual))
struct Epilogue {
  Activation activation = Activation::kNone;
  at::Tensor residual = {};  // same shape as x; undefined: none
  // Max-pooling of 2 x 2 with stride 2, for x [B, C, H, W]; an odd last row or column is left out
  bool max_pool = false;
};

namespace batch_norm {

struct Affine {
  at::Tensor weight, bias, mean, invstd;  // [C]
};

struct NormOutput {
  at::Tensor y;
  at::Tensor chosen;  // uint8, shape of y: for backward, if pooled
};

// What backward needs. Of the residual only whether there is one.
struct Saved {
  at::Tensor x, lengths;
  Affine affine;
  at::Tensor y;  // with a residual and an activation
  at::Tensor chosen;
  Activation activation = Activation::kNone;
};

struct Statistics {
  at::Tensor mean, invstd;  // [C], in the precision of the running statistics
  at::Tensor count;         // float64 scalar: values per channel, at least 1
};

struct Running {
  at::Tensor mean, variance;  // [C]; the unbiased variance
  at::Tensor batches;         // int64 scalar
  double momentum, eps;
};

struct ParameterGradients {
  at::Tensor weight, bias;  // [C]
};

struct NormGradients {
  ParameterGradients parameters;
  at::Tensor input;  // undefined: not asked for
};

}  // namespace batch_norm
}  // namespace dtrain::kernels
