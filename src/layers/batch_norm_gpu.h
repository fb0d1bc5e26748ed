#pragma once

// Batch norm on a GPU in dtrain's own kernels, as batch_norm_kernels.h describes it: chooses which
// tensors they take, and makes their jobs (batch_norm_blocks.h). They are queued on the current
// stream and never wait for the GPU.
//
// They have not run on a GPU yet. Therefore the first tensor of each type starts a comparison of
// the kernels with LibTorch's operators, on that GPU (batch_norm_check.h). If they disagree, a
// warning says so, and this process uses LibTorch's operators for that type.

#include "layers/batch_norm_blocks.h"
#include "layers/batch_norm_kernels.h"

namespace dtrain::layers::batch_norm::gpu {

// Whether the kernels take x and what belongs to it: float32, float16 and bfloat16 on a GPU, with
// values, unless they are turned off or failed the comparison. All other tensors on a GPU are left
// to LibTorch's operators. Thread-safe.
bool covers(const at::Tensor& x);

// Whether max-pooling can be part of the pass over x: channels last, and large enough for
// an output.
bool can_pool(const at::Tensor& x);

// false: covers() is false for all tensors. For the whole process; to be called before the first
// layer runs.
void enable(bool on);

// For tests: from now on the kernels also take tensors of the CPU, float64 too, and `runner`
// computes them, after the comparison. Without a runner the GPU alone has kernels again.
// Not thread-safe.
void run_on(const blocks::Runner& runner);

// Require: covers(x).
at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths);
Statistics statistics(const at::Tensor& sums, const Running&);
Statistics fixed_statistics(const Running&);
Output normalize(const at::Tensor& x, const at::Tensor& lengths, const Affine&, const Epilogue&);
at::Tensor gradient_sums(const Saved&, at::Tensor& dy);
ParameterGradients parameter_gradients(const Saved&, const at::Tensor& gradient_sums);
at::Tensor input_gradient(const Saved&, const at::Tensor& dy, const at::Tensor& gradient_sums,
                          const at::Tensor& count);

}  // namespace dtrain::layers::batch_norm::gpu
