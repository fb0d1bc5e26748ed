#pragma once

// The arithmetic of batch norm over tensors: statistics, normalization, and the gradients. On the
// CPU these are own loops (kernels/batch_norm_cpu.h), and on the GPU own kernels for what they take
// (norm_kernels.h). Both also compute what follows the normalization (a residual, an activation,
// max-pooling) in the same pass over memory. For other tensors they are the kernels that LibTorch
// has, or tensor operations for padded sequences, without anything that follows.
//
// x, dy [B, C, ...]: float64, or float32 and half precision (on the CPU bfloat16 only) with all
// other tensors in float32. lengths: int64 [B] for x [B, C, T], or undefined if all positions are
// valid; results are zero beyond the lengths. All on one device; x, dy and the residual in one
// memory format, which results have too. Results do not depend on the number of threads.

#include <torch/types.h>

#include "layers/epilogue.h"

namespace dtrain::layers::batch_norm {

using kernels::batch_norm::Affine;
using kernels::batch_norm::NormGradients;
using kernels::batch_norm::NormOutput;
using kernels::batch_norm::ParameterGradients;
using kernels::batch_norm::Running;
using kernels::batch_norm::Saved;
using kernels::batch_norm::Statistics;

// Whether normalize() of x computes an epilogue, and whether one with max-pooling. Both stay as
// they are for a tensor between forward and backward.
bool is_fused(const at::Tensor& x);
bool can_pool(const at::Tensor& x);

// float64 [1 + 2 C]: the number of values per channel, their sums and the sums of their squares,
// which can be added up over ranks. The squares are computed from deviations, so cancellation
// happens only when they are combined: the relative error of the variance is about 2^-53 · (1 +
// mean² / variance).
at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths);

// From sums(x) over all ranks. Moves the running statistics, unless there is a single value, whose
// variance is unknown, and counts the batch.
Statistics statistics(const at::Tensor& x, const at::Tensor& sums, const Running&);

// statistics() of sums(x), where nothing is added up over ranks.
Statistics statistics_of(const at::Tensor& x, const at::Tensor& lengths, const Running&);

// Statistics that do not depend on a batch: the running ones as they are now, in memory of their
// own, because they may change before backward. The count is 1.
Statistics fixed_statistics(const at::Tensor& x, const Running&);

// y = the epilogue of the normalized x, for an x that is_fused(). Max-pooling needs can_pool() too,
// and excludes a residual and lengths.
NormOutput normalize(const at::Tensor& x, const at::Tensor& lengths, const Affine&,
                     const Epilogue&);

// float64 [2 C]: the sums of the gradient of the normalized values, and of its product with (x -
// mean). `dy` is the gradient of the output; with a residual and an activation it becomes that of
// their sum.
at::Tensor gradient_sums(const Saved&, at::Tensor& dy);

// The gradients of weight and bias, from the gradient sums of this rank.
ParameterGradients parameter_gradients(const Saved&, const at::Tensor& gradient_sums);

// The gradient of x, given the gradient sums over all `count` values per channel (a float64 scalar
// tensor). `dy` is what gradient_sums() left. With fixed statistics the sums are zero.
at::Tensor input_gradient(const Saved&, const at::Tensor& dy, const at::Tensor& gradient_sums,
                          const at::Tensor& count);

// All gradients, where nothing is added up over ranks; that of x if it is asked for. `dy` becomes
// what gradient_sums() makes of it.
NormGradients gradients(const Saved&, at::Tensor& dy, const at::Tensor& count, bool of_input);

}  // namespace dtrain::layers::batch_norm
