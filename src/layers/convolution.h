#pragma once

// Convolutions for training and evaluation. On CPUs with AVX2 or AVX-512, for float32 in
// channels_last, those of 3 x 3 with stride 1 and padding 1 are computed by Winograd's algorithm
// (kernels/winograd.h), and all others by LibTorch.
//
// Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

namespace torch::nn {
class Conv2dImpl;
}

namespace dtrain::layers {

// What conv.forward(x) computes, x [B, C, H, W], except for the rounding of float32. As with
// oneDNN, the bits of the gradients of weight and bias depend on the number of threads.
at::Tensor convolve(torch::nn::Conv2dImpl& conv, const at::Tensor& x);

}  // namespace dtrain::layers
