#pragma once

// The gradient of a convolution's weights on the CPU, by the loops of convolution_loops.h: divides
// the positions of the output, or the channels of y, among LibTorch's threads.
//
// Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

#include <cstdint>
#include <utility>

namespace dtrain::kernels {

// {gradient of the weight, as channels_last, gradient of the bias or an undefined tensor} by our
// loops. x [B, C, H, W] and dy [B, O, OH, OW] are float32 and channels_last on
// the CPU; weight [O, C, KH, KW] gives the shape of the kernel.
std::pair<at::Tensor, at::Tensor> conv2d_weight_gradient(const at::Tensor& x,
                                                         const at::Tensor& weight,
                                                         const at::Tensor& dy, int64_t stride,
                                                         int64_t padding, bool with_bias);

}  // namespace dtrain::kernels
