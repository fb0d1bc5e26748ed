#pragma once

// Depthwise 3 x 3 convolutions, which are bound by memory, for training on the CPU. oneDNN's
// gradient of the weights takes about twice as long as the convolution itself; ours takes as
// long (`build/bench/cpu_layers`).
//
// Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

#include <cstdint>

namespace dtrain::layers {

// The convolution of each channel of x [B, C, H, W] with its own weight [C, 1, 3, 3], with padding
// 1 and stride 1 or 2, as at::conv2d computes it: by loops of our own for float32 in channels_last
// on the CPU, else by LibTorch. Results of our loops do not depend on the number of threads.
at::Tensor depthwise_conv(const at::Tensor& x, const at::Tensor& weight, int64_t stride);

}  // namespace dtrain::layers
