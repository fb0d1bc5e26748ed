#pragma once

// The arithmetic of batch norm with statistics that more than this batch may give: LibTorch's kernels for it on the
// GPU, loops of our own on the CPU, where it has none, and tensor operations for padded sequences on the GPU.
//
// x, dy [B, C, ...]: float64, or float32 and half precision with everything else in float32. `lengths` int64 [B], for
// x [B, C, T], or undefined: all positions are valid. Beyond them results are zero. All of one device.

#include <torch/torch.h>

namespace dtrain::layers::batch_norm {

// float64 [1 + 2 C]: number of values per channel, their sums, the sums of their squares. Sums add up over ranks. The
// squares come from sums about the mean, so that only the combination cancels: the variance is off by about
// 2^-53 · (1 + mean² / variance) of itself.
at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths);

// (x - mean) · invstd · weight + bias
at::Tensor normalise(const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& mean, const at::Tensor& invstd);

// float64 [2 C]: sums of dy, sums of dy · (x - mean).
at::Tensor gradient_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& mean,
                         const at::Tensor& invstd, const at::Tensor& weight);

// The gradient of x, given `gradient_sums` over all `count` values per channel.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths,
                          const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& invstd,
                          const at::Tensor& gradient_sums, const at::Tensor& count);

}  // namespace dtrain::layers::batch_norm
