#pragma once

// The loops and kernels behind layers/additive_attention.h, over plain memory, for float and
// double. No torch.
//
// Gain (build/bench/attention_step 64 3 3): a step of the pointer network is 1.3 times as fast as
// with LibTorch's operators for 20 elements, and 1.9 times for 50. The GPU's kernels have not run
// on a GPU. Delete them when LibTorch has a fused attention of this form for C++.

#include <cstdint>

#include "core/host_device.h"
#include "kernels/launch_check.h"

namespace dtrain::kernels {

inline constexpr double kExponentLimit = 86;  // limits the exponent of e^(2x) in float32

// Step t of sample b chooses order[b][t] among the elements below lengths[b] that no earlier step
// chose. "Prepared" rows are described in additive_attention_body.inc.
template <typename Number>
struct AttentionProblem {
  int64_t steps = 0, samples = 0, hidden = 0;  // steps: also the number of elements
  const Number* keys = nullptr;                // [steps, samples, hidden], prepared
  const Number* queries = nullptr;             // [steps, samples, hidden], prepared
  const Number* v = nullptr;                   // [hidden]
  const int64_t* order = nullptr;              // [samples, steps]
  const int64_t* lengths = nullptr;            // [samples]; limited to [0, steps]
};

// Whether a step can be taken. From the first one on that chooses an element twice, or none of
// those that there are, a sample has no gradient.
enum class AttentionStep : uint8_t {
  kPossible,
  kImpossible,  // the first such step of its sample
  kTooLate,     // after it
};

// What a step is that finds `left` elements of `length` that no step before it chose.
// `chosen_left`: its choice is one of them. An impossible step before it chose no new one. Pure.
DTRAIN_HD inline AttentionStep step_of(int64_t step, int64_t length, int64_t left,
                                       bool chosen_left) {
  if (left != length - step) return AttentionStep::kTooLate;
  return chosen_left ? AttentionStep::kPossible : AttentionStep::kImpossible;
}

// nll[b] = sum over the steps of -log softmax(scores)[order], infinite if the order has an element
// twice or an invalid one. residual[b][t][j] = softmax - one-hot, 0 where j may not be chosen, and
// in all steps from the first impossible one on: the gradient of nll with respect to the scores.
// Computes and writes samples [begin, end).
template <typename Number>
void attention_forward_on_cpu(const AttentionProblem<Number>&, int64_t begin, int64_t end,
                              Number* residual, Number* nll);

// The gradients of the sum of scale[b] * nll[b] with respect to keys and queries (before
// preparation) [steps, samples, hidden] and, per sample, to v [samples, hidden]. Computes and
// writes samples [begin, end).
template <typename Number>
void attention_backward_on_cpu(const AttentionProblem<Number>&, int64_t begin, int64_t end,
                               const Number* residual, const Number* scale, Number* keys,
                               Number* queries, Number* v);

// The same on the GPU: all pointers are device memory, and the kernels are queued on `stream` (a
// cudaStream_t). Here nll is per step, [samples, steps], and so is v, [steps, samples, hidden]; the
// caller sums them, in a fixed order. Require: check_fits_gpu(). DeviceError in a build without
// GPU code.
template <typename Number>
[[nodiscard]] LaunchResult attention_forward_on_gpu(const AttentionProblem<Number>&,
                                                    Number* residual, Number* nll, void* stream);
template <typename Number>
[[nodiscard]] LaunchResult attention_backward_on_gpu(const AttentionProblem<Number>&,
                                                     const Number* residual, const Number* scale,
                                                     Number* keys, Number* queries, Number* v,
                                                     void* stream);

// The shared memory of a block of the forward kernel: a score of each element, and whether it may
// not be chosen.
template <typename Number>
int64_t shared_bytes_of(const AttentionProblem<Number>& p) {
  return p.steps * static_cast<int64_t>(sizeof(Number) + 1);
}

// DeviceError if the sets are too many for the kernels, or too large (`shared_bytes`:
// shared_bytes_of()). Pure.
void check_fits_gpu(int64_t samples, int64_t steps, int64_t shared_bytes);

}  // namespace dtrain::kernels
