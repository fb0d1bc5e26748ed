#pragma once

// Depthwise 3 x 3 convolutions with padding 1 on the CPU, by the loops of depthwise_loops.h. All
// tensors are float32; x [B, C, H, W] and dy are channels_last. Results do not depend on the number
// of threads.
//
// Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

#include "kernels/depthwise_loops.h"

namespace dtrain::kernels::depthwise {

// The shape of a convolution of x [B, C, H, W].
DepthwiseShape shape_of(at::IntArrayRef x, int64_t stride);

// A weight [C, 1, 3, 3] as the loops read it, [9, C], and the sum of its gradients [parts, 9, C] as
// a weight.
at::Tensor by_tap(const at::Tensor& weight);
at::Tensor weight_of_parts(const at::Tensor& parts);

// taps: by_tap() of the weight.
at::Tensor convolve(const DepthwiseShape&, const at::Tensor& x, const at::Tensor& taps);
at::Tensor input_gradient(const DepthwiseShape&, const at::Tensor& dy, const at::Tensor& taps);
at::Tensor weight_gradient(const DepthwiseShape&, const at::Tensor& x, const at::Tensor& dy);

}  // namespace dtrain::kernels::depthwise
