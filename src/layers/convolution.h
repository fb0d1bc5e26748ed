#pragma once

// Convolutions for training. On CPUs with AVX2 and no wider vectors oneDNN's gradient of the weights takes two to four
// times as long as the convolution itself; ours takes as long (docs/benchmarks.md). All else is LibTorch's.
//
// Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

#include <cstdint>
#include <utility>

namespace torch::nn {
class Conv2dImpl;
}

namespace dtrain::layers {

// What conv.forward(x) computes, x [B, C, H, W]. Without groups and dilation, and for float32 in channels_last where
// that is faster, the gradients of its weight and bias are computed by loops of our own. As with oneDNN, their bits
// depend on the number of threads.
at::Tensor convolve(torch::nn::Conv2dImpl& conv, const at::Tensor& x);

// {gradient of the weight, as channels_last, gradient of the bias or an undefined tensor} by our loops, whatever is
// faster. x [B, C, H, W] and dy [B, O, OH, OW] are float32 and channels_last on the CPU; weight [O, C, KH, KW] gives
// the shape of the kernel.
std::pair<at::Tensor, at::Tensor> conv2d_weight_gradient(const at::Tensor& x, const at::Tensor& weight,
                                                         const at::Tensor& dy, int64_t stride, int64_t padding,
                                                         bool with_bias);

}  // namespace dtrain::layers
