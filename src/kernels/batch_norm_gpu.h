#pragma once

// Batch norm on a GPU by dtrain's own kernels: makes their jobs (batch_norm_blocks.h) of tensors.
// The jobs are queued on the current stream; no call waits for the GPU. `runner` computes them: on
// a GPU it is blocks::kOnGpu.
//
// layers/norm_kernels.h decides which tensors they take, and whether their results are right on a
// GPU. Each function means what its namesake in layers/batch_norm_arithmetic.h does.
//
// Gain: see batch_norm_blocks.h.

#include <optional>

#include "kernels/batch_norm_blocks.h"
#include "kernels/batch_norm_types.h"

namespace dtrain::kernels::batch_norm::gpu {

// The type of x in memory; nullopt: no kernel takes it. Pure.
std::optional<blocks::Type> type_of(const at::Tensor& x);

// Whether max-pooling can be part of the pass over x: channels last, and large enough for
// an output. Pure.
bool can_pool(const at::Tensor& x);

// Require: type_of(x), and at least one value.
at::Tensor sums(const blocks::Runner& runner, const at::Tensor& x, const at::Tensor& lengths);
Statistics statistics_of(const blocks::Runner& runner, const at::Tensor& x,
                         const at::Tensor& lengths, const Running&);
Statistics statistics(const blocks::Runner& runner, const at::Tensor& sums, const Running&);
Statistics fixed_statistics(const blocks::Runner& runner, const Running&);
NormOutput normalize(const blocks::Runner& runner, const at::Tensor& x, const at::Tensor& lengths,
                     const Affine&, const Epilogue&);
at::Tensor gradient_sums(const blocks::Runner& runner, const Saved&, at::Tensor& dy);
ParameterGradients parameter_gradients(const blocks::Runner& runner, const Saved&,
                                       const at::Tensor& gradient_sums);
at::Tensor input_gradient(const blocks::Runner& runner, const Saved&, const at::Tensor& dy,
                          const at::Tensor& gradient_sums, const at::Tensor& count);
NormGradients gradients(const blocks::Runner& runner, const Saved&, at::Tensor& dy,
                        const at::Tensor& count, bool of_input);

}  // namespace dtrain::kernels::batch_norm::gpu
