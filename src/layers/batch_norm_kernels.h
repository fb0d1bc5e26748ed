#pragma once

// The arithmetic of batch norm whose statistics are shared or limited to valid positions. On the GPU it uses the
// kernels that LibTorch has for this, or tensor operations for padded sequences; on the CPU, where LibTorch has none,
// own loops.
//
// x, dy [B, C, ...]: float64, or float32 and half precision with all other tensors in float32. lengths: int64 [B] for x
// [B, C, T], or undefined if all positions are valid; results are zero beyond the lengths. All on one device.

#include <torch/types.h>

namespace dtrain::layers::batch_norm {

// float64 [1 + 2 C]: the number of values per channel, their sums and the sums of their squares, which can be added up
// over ranks. The squares are computed from deviations from the mean, so cancellation happens only when they are
// combined: the relative error of the variance is about 2^-53 · (1 + mean² / variance).
at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths);

// (x - mean) · invstd · weight + bias
at::Tensor normalize(const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& mean, const at::Tensor& invstd);

// float64 [2 C]: the sums of dy and the sums of dy · (x - mean).
at::Tensor gradient_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& mean,
                         const at::Tensor& invstd, const at::Tensor& weight);

// The gradient of x, given the gradient sums over all `count` values per channel.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths,
                          const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& invstd,
                          const at::Tensor& gradient_sums, const at::Tensor& count);

}  // namespace dtrain::layers::batch_norm
