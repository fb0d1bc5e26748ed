#pragma once

// What additive_attention.cpp calls: loops over plain memory, for float and double. No torch.

#include <cstdint>

namespace dtrain::layers {

inline constexpr double kExponentLimit = 86;  // of e^(2x) in float32

// Step t of sample b chooses order[b][t] among the elements below lengths[b] that no earlier step chose. Rows are
// "prepared" as additive_attention_body.inc says.
template <typename Number>
struct AttentionProblem {
  int64_t steps = 0, samples = 0, hidden = 0;  // as many elements as steps
  const Number* keys = nullptr;                // [steps, samples, hidden], prepared
  const Number* queries = nullptr;             // [steps, samples, hidden], prepared
  const Number* v = nullptr;                   // [hidden]
  const int64_t* order = nullptr;              // [samples, steps]
  const int64_t* lengths = nullptr;            // [samples]; taken as within 0 and steps
};

// nll[b] = sum over the steps of -log softmax(scores)[order]; infinite where the order names an element twice or none.
// residual[b][t][j] = softmax - one-hot, 0 where j may not be chosen: the gradient of nll by the scores.
// CPU: samples [begin, end), all that is written belongs to them.
template <typename Number>
void attention_forward_on_cpu(const AttentionProblem<Number>&, int64_t begin, int64_t end, Number* residual,
                              Number* nll);

// Gradients of sum over b of scale[b] * nll[b]: keys and queries [steps, samples, hidden] (before preparation), v of
// each sample [samples, hidden]. Everything of samples [begin, end) is written.
template <typename Number>
void attention_backward_on_cpu(const AttentionProblem<Number>&, int64_t begin, int64_t end, const Number* residual,
                               const Number* scale, Number* keys, Number* queries, Number* v);

// For tests: vectors of at most so many floats from now on (16: AVX-512, 8: AVX2, else any machine's). Not thread-safe.
void limit_attention_lanes(int most);

// The same on the GPU: all pointers are device memory, the work is queued on `stream` (a cudaStream_t). nll is per step
// here, [samples, steps], and v per step, [steps, samples, hidden], to be summed by the caller (in a fixed order).
// DeviceError when a launch fails, or in a build without GPU code.
template <typename Number>
void attention_forward_on_gpu(const AttentionProblem<Number>&, Number* residual, Number* nll, void* stream);
template <typename Number>
void attention_backward_on_gpu(const AttentionProblem<Number>&, const Number* residual, const Number* scale,
                               Number* keys, Number* queries, Number* v, void* stream);

}  // namespace dtrain::layers
