#pragma once

// Batch norm on the CPU, as layers/batch_norm_arithmetic.h describes it, and max-pooling with an
// activation alone: divides tensors among threads and calls the loops. The parts of a tensor are
// the same for any number of threads and their sums are added up in order, so that results depend
// on neither threads nor timing.
//
// These layers are bound by memory. So one pass after that for the statistics computes all that
// follows, and backward reads the input again instead of keeping what lies between.
//
// Gain (bench/kernel_gains.py batch_norm, and max_pool): a step of headpose_cnn at 224 pixels
// is 1.08 times as fast as with LibTorch's batch norm, of resnet18 as fast, and of
// mobilenet_v2 1.12 to 1.14 times where fused_convolutions.h is off, which needs these loops.
// Max-pooling with its activation makes a step of simple_cnn 1.17 to 1.19 times as fast.
// build/bench/cpu_layers 2 norm times the layers alone. Delete it when LibTorch's sums do not
// depend on the number of threads, and it computes what follows in the same pass.

#include "kernels/batch_norm_types.h"

namespace dtrain::kernels::batch_norm::cpu {

at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths);
NormOutput normalize(const at::Tensor& x, const at::Tensor& lengths, const Affine&,
                     const Epilogue&);
at::Tensor gradient_sums(const Saved&, at::Tensor& dy);
at::Tensor input_gradient(const Saved&, const at::Tensor& dy, const at::Tensor& gradient_sums,
                          const at::Tensor& count);

// Whether x [B, C, H, W] can be pooled here: channels last, and large enough for an output.
bool can_pool(const at::Tensor& x);

// Max-pooling of 2 x 2 with stride 2 after the activation of x [B, C, H, W], channels last, and
// its gradient.
NormOutput pool(const at::Tensor& x, Activation);
at::Tensor pool_gradient(const at::Tensor& dy, const at::Tensor& chosen, at::IntArrayRef x_sizes);

}  // namespace dtrain::kernels::batch_norm::cpu
