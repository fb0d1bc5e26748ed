#include "core/host_device.h"
#include "kernels/additive_attention.h"
#include "kernels/lengths.h"

namespace dtrain::kernels {
namespace {

template <typename Number>
DTRAIN_HD inline Number reciprocal(Number x) {
  return 1 / x;
}
#include "kernels/additive_attention_body.inc"

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

template <typename Number>
__device__ const Number* row(const Number* rows, const AttentionProblem<Number>& p, int64_t i,
                             int64_t sample) {
  return rows + (i * p.samples + sample) * p.hidden;
}

// Grid: x = step, y = sample. Each warp scores every kWarps-th element that was not chosen; then
// one warp computes the softmax.
template <typename Number>
__global__ void forward(AttentionProblem<Number> p, Number* residuals, Number* nll) {
  extern __shared__ __align__(16) unsigned char memory[];
  Number* scores = reinterpret_cast<Number*>(memory);
  unsigned char* gone = memory + p.steps * sizeof(Number);
  const int64_t t = blockIdx.x, sample = blockIdx.y,
                length = valid_length(p.lengths[sample], p.steps);
  const int64_t* order = p.order + sample * p.steps;
  Number* residual = residuals + (sample * p.steps + t) * p.steps;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (t >= length) {
    for (int64_t j = threadIdx.x; j < p.steps; j += kThreads) residual[j] = 0;
    if (threadIdx.x == 0) nll[sample * p.steps + t] = 0;
    return;
  }
  for (int64_t j = threadIdx.x; j < p.steps; j += kThreads) gone[j] = j >= length;
  __syncthreads();
  for (int64_t before = threadIdx.x; before < t; before += kThreads) {
    if (order[before] >= 0 && order[before] < p.steps) gone[order[before]] = 1;
  }
  __syncthreads();
  const Number* query = row(p.queries, p, t, sample);
  for (int64_t j = warp; j < length; j += kWarps) {
    if (gone[j]) continue;  // the whole warp
    const Number* key = row(p.keys, p, j, sample);
    Number sum = 0;
    for (int64_t k = lane; k < p.hidden; k += 32) sum += p.v[k] * tanh_of_sum(key[k], query[k]);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0) scores[j] = sum;
  }
  __syncthreads();
  if (warp > 0) return;
  Number highest = -INFINITY;
  int left = 0;
  for (int64_t j = lane; j < length; j += 32) {
    if (gone[j]) continue;
    highest = scores[j] > highest ? scores[j] : highest;
    ++left;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const Number other = __shfl_xor_sync(0xffffffffu, highest, offset);
    highest = other > highest ? other : highest;
    left += __shfl_xor_sync(0xffffffffu, left, offset);
  }
  const int64_t chosen = order[t];
  const bool chosen_left = chosen >= 0 && chosen < length && !gone[chosen];
  const AttentionStep step = step_of(t, length, left, chosen_left);
  if (step != AttentionStep::kPossible) {
    for (int64_t j = lane; j < p.steps; j += 32) residual[j] = 0;
    if (lane == 0)
      nll[sample * p.steps + t] = step == AttentionStep::kImpossible ? Number(INFINITY) : Number(0);
    return;
  }
  Number sum = 0;
  for (int64_t j = lane; j < length; j += 32) sum += gone[j] ? Number(0) : exp(scores[j] - highest);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  for (int64_t j = lane; j < p.steps; j += 32) {
    residual[j] = gone[j] ? Number(0)
                          : exp(scores[j] - highest) / sum - (j == chosen ? Number(1) : Number(0));
  }
  if (lane == 0) nll[sample * p.steps + t] = log(sum) + highest - scores[chosen];
}

// Grid: x = step, y = sample; a thread per column.
template <typename Number>
__global__ void backward_queries(AttentionProblem<Number> p, const Number* residuals,
                                 const Number* scale, Number* queries, Number* v) {
  const int64_t t = blockIdx.x, sample = blockIdx.y,
                length = valid_length(p.lengths[sample], p.steps);
  const Number* residual = residuals + (sample * p.steps + t) * p.steps;
  const Number* query = row(p.queries, p, t, sample);
  for (int64_t k = threadIdx.x; k < p.hidden; k += kThreads) {
    Number of_query = 0, of_v = 0;
    for (int64_t j = 0; j < length && t < length; ++j) {
      if (residual[j] == 0) continue;
      const Number gradient = scale[sample] * residual[j],
                   tanh = tanh_of_sum(row(p.keys, p, j, sample)[k], query[k]);
      of_query += slope(tanh, gradient);
      of_v += gradient * tanh;
    }
    const int64_t at = (t * p.samples + sample) * p.hidden + k;
    queries[at] = p.v[k] * of_query;
    v[at] = of_v;
  }
}

// Grid: x = element, y = sample; a thread per column.
template <typename Number>
__global__ void backward_keys(AttentionProblem<Number> p, const Number* residuals,
                              const Number* scale, Number* keys) {
  const int64_t j = blockIdx.x, sample = blockIdx.y,
                length = valid_length(p.lengths[sample], p.steps);
  const Number* residual = residuals + sample * p.steps * p.steps + j;
  const Number* key = row(p.keys, p, j, sample);
  for (int64_t k = threadIdx.x; k < p.hidden; k += kThreads) {
    Number of_key = 0;
    for (int64_t t = 0; t < length && j < length; ++t) {
      const Number gradient = scale[sample] * residual[t * p.steps];
      if (gradient != 0)
        of_key += slope(tanh_of_sum(key[k], row(p.queries, p, t, sample)[k]), gradient);
    }
    keys[(j * p.samples + sample) * p.hidden + k] = p.v[k] * of_key;
  }
}

template <typename Number>
dim3 grid_of(const AttentionProblem<Number>& p) {
  return {static_cast<unsigned>(p.steps), static_cast<unsigned>(p.samples)};
}

}  // namespace

template <typename Number>
LaunchResult attention_forward_on_gpu(const AttentionProblem<Number>& p, Number* residual,
                                      Number* nll, void* stream) {
  if (p.steps * p.samples == 0) return cudaSuccess;
  const auto shared = static_cast<size_t>(shared_bytes_of(p));
  forward<<<grid_of(p), kThreads, shared, static_cast<cudaStream_t>(stream)>>>(p, residual, nll);
  return cudaGetLastError();
}

template <typename Number>
LaunchResult attention_backward_on_gpu(const AttentionProblem<Number>& p, const Number* residual,
                                       const Number* scale, Number* keys, Number* queries,
                                       Number* v, void* stream) {
  if (p.steps * p.samples == 0) return cudaSuccess;
  backward_queries<<<grid_of(p), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      p, residual, scale, queries, v);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  backward_keys<<<grid_of(p), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p, residual, scale,
                                                                                keys);
  return cudaGetLastError();
}

#define DTRAIN_FOR(Number)                                                                        \
  template LaunchResult attention_forward_on_gpu(const AttentionProblem<Number>&, Number*,        \
                                                 Number*, void*);                                 \
  template LaunchResult attention_backward_on_gpu(const AttentionProblem<Number>&, const Number*, \
                                                  const Number*, Number*, Number*, Number*,       \
                                                  void*);
DTRAIN_FOR(float)
DTRAIN_FOR(double)
#undef DTRAIN_FOR

}  // namespace dtrain::kernels
