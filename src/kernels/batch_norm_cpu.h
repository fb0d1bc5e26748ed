#pragma once

// Batch norm on the CPU, as layers/batch_norm_arithmetic.h describes it, and max-pooling with an
// activation alone: divides tensors among threads and calls the loops. The parts of a tensor are
// the same for any number of threads and their sums are added up in order, so that results depend
// on neither threads nor timing.
//
// These layers are bound by memory. So one pass after that for the statistics computes all that
// follows, and backward reads the input again instead of keeping what lies between.
//
// Gain (build/bench/cpu_layers 2 norm): a step of mobilenet_v2 is 1.13 times as fast as with
// LibTorch's batch norm, of headpose_cnn at 224 pixels 1.08 times, of resnet18 as fast; pooling
// makes one of simple_cnn 1.17 times as fast. Delete it when LibTorch's sums do not depend on the
// number of threads, and it computes what follows in the same pass.

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
