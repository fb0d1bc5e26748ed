#pragma once

// Convolutions on the CPU that are bound by memory, 1 x 1 and depthwise 3 x 3, between batch norms:
// they normalize their input while they read it and add up their output while they write it, and in
// backward read the gradient through the batch norm in the same way. So each tensor is written
// once, and no pass over one is for statistics alone.
//
// Gain (bench/kernel_gains.py linear_bottleneck): a step of mobilenet_v2 is 1.16 times as fast at
// 224 pixels and 1.08 times at 112, and its tensors take less memory. On a CPU without AVX-512 it
// is 1.45 times as fast at 224 and 1.28 times at 112. Delete them when LibTorch fuses batch norm
// into convolutions in training.
//
// All tensors are float32 in channels_last; widths that have a batch norm are multiples of 16.
// Results are the same for any number of threads, except for the gradients of 1 x 1 weights, which
// are summed in one part per thread. Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

#include <cstdint>

#include "kernels/batch_norm_channels.h"

namespace dtrain::kernels::fused {

// The input of a convolution: ReLU6 of `x` normalized, or `x` if there is no norm.
struct Input {
  at::Tensor x;  // [B, C, H, W]
  const batch_norm::ChannelValues<float>* norm = nullptr;
};

// The gradient of `y`, the output of a convolution: that of a batch norm over y, whose ReLU6 has
// the gradient `dy`; or `dy` if there is no norm. `norm` has the sums of the gradient.
struct Gradient {
  at::Tensor dy, y;
  const batch_norm::ChannelValues<float>* norm = nullptr;
};

struct ConvOutput {
  at::Tensor y;
  at::Tensor sums;  // batch_norm::sums(y), if asked for
};

struct Gradients {
  // Gradient of the input after its norm and ReLU6, the `dy` of its own Gradient, if asked for
  at::Tensor x;
  // Sums of `x`, like batch_norm::gradient_sums() for the norm of the input, if it has one
  at::Tensor sums;
  at::Tensor weight;  // same shape as the weight
};

// weight [out, C, 1, 1]
ConvOutput pointwise(const Input&, const at::Tensor& weight, bool with_sums);
Gradients pointwise_gradients(const Input&, const at::Tensor& weight, const Gradient&, bool with_x);

// weight [C, 1, 3, 3], padding 1, stride 1 or 2
ConvOutput depthwise(const Input&, const at::Tensor& weight, int64_t stride);
Gradients depthwise_gradients(const Input&, const at::Tensor& weight, int64_t stride,
                              const Gradient&, bool with_x);

}  // namespace dtrain::kernels::fused
