#pragma once

// Winograd's algorithm for 3 x 3 convolutions with stride 1 and padding 1 (winograd_loops.h), which
// needs 16 multiplications where the sum itself needs 36, and its adjoints for their gradients.
//
// All tensors are float32 and channels_last on the CPU: x [B, C, H, W], weight [O, C, 3, 3], y and
// dy [B, O, H, W]. The bits of a result and of the gradient of x depend neither on the number of
// threads nor on the batch.
//
// Gain (bench/kernel_gains.py winograd): a step of headpose_cnn is 1.2 times as fast at 64 pixels
// and 1.4 times at 224, with AVX2 1.3 times at 64. The layers alone are 1.2 to 1.9 times as fast as
// oneDNN's (build/bench/cpu_layers 2 Winograd). Delete it when oneDNN's own Winograd, which it does
// not choose on these CPUs, is as fast.
//
// Thread-safety: any thread, on LibTorch's threads.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace dtrain::kernels {

// Whether the channels are whole tiles and vectors of this CPU. The functions below throw where
// they are not.
bool winograd_takes(int64_t in_channels, int64_t out_channels);

at::Tensor winograd_conv2d(const at::Tensor& x, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias);

at::Tensor winograd_input_gradient(const at::Tensor& dy, const at::Tensor& weight);

// {gradient of the weight, gradient of the bias or an undefined tensor}. Their bits depend on the
// number of threads, as with oneDNN.
std::pair<at::Tensor, at::Tensor> winograd_weight_gradient(const at::Tensor& x,
                                                           const at::Tensor& dy, bool with_bias);

}  // namespace dtrain::kernels
