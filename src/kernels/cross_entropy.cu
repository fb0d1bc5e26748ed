#include "kernels/cross_entropy.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>

namespace dtrain::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }
__device__ float logarithm(float x) { return logf(x); }
__device__ double logarithm(double x) { return log(x); }

template <typename Number>
__device__ Number sum_of_warp(Number mine) {
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
  return mine;
}

// A sample, which one warp takes.
template <typename T>
struct Row {
  using Number = typename CrossEntropy<T>::Number;

  const CrossEntropy<T>& of;
  const T* logits;
  int64_t target;
  int lane;
  Number highest = -INFINITY, sum = 0;  // softmax: exp(logit - highest) / sum

  __device__ Row(const CrossEntropy<T>& all, int64_t sample)
      : of(all),
        logits(all.logits + sample * all.classes),
        target(all.targets[sample]),
        lane(threadIdx.x % 32) {
    for (int64_t c = lane; c < of.classes; c += 32) highest = larger(highest, logit(c));
    for (int offset = 16; offset > 0; offset /= 2)
      highest = larger(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
    for (int64_t c = lane; c < of.classes; c += 32) sum += exponential(logit(c) - highest);
    sum = sum_of_warp(sum);
  }

  __device__ static Number larger(Number a, Number b) { return a > b ? a : b; }
  __device__ Number logit(int64_t c) const { return static_cast<Number>(logits[c]); }
  __device__ bool is_counted() const { return target != of.ignore_index; }
  __device__ bool is_class() const { return target >= 0 && target < of.classes; }

  // The share of the target that class c has, times its weight.
  __device__ Number wanted(int64_t c) const {
    const Number share = (c == target ? 1 - of.smoothing : Number(0)) +
                         of.smoothing / static_cast<Number>(of.classes);
    return of.weights != nullptr ? of.weights[c] * share : share;
  }
};

// This warp's first sample, and how far its next one is.
__device__ int64_t first_sample() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
}
__device__ int64_t warps() { return static_cast<int64_t>(gridDim.x) * kWarps; }

template <typename T>
__global__ void forward(CrossEntropy<T> of, typename CrossEntropy<T>::Number* losses) {
  using Number = typename CrossEntropy<T>::Number;
  for (int64_t sample = first_sample(); sample < of.samples; sample += warps()) {
    const Row<T> row(of, sample);
    const Number log_sum = logarithm(row.sum);
    Number loss = 0;
    for (int64_t c = row.lane; c < of.classes; c += 32) {
      const Number wanted = row.wanted(c);
      // 0 × infinity is no part of a loss.
      if (wanted != 0) loss += wanted * (log_sum - (row.logit(c) - row.highest));
    }
    loss = sum_of_warp(loss);
    if (row.lane > 0) continue;
    const bool has_loss = row.is_class() && log_sum == log_sum;  // all logits are numbers
    losses[sample] = !row.is_counted() ? Number(0) : has_loss ? loss : Number(NAN);
  }
}

template <typename T>
__global__ void backward(CrossEntropy<T> of, const typename CrossEntropy<T>::Number* of_losses,
                         T* gradient) {
  using Number = typename CrossEntropy<T>::Number;
  for (int64_t sample = first_sample(); sample < of.samples; sample += warps()) {
    const Row<T> row(of, sample);
    Number all_wanted = 0;
    for (int64_t c = row.lane; c < of.classes; c += 32) all_wanted += row.wanted(c);
    all_wanted = sum_of_warp(all_wanted);
    const Number factor = row.is_class() ? of_losses[sample] : Number(NAN);
    for (int64_t c = row.lane; c < of.classes; c += 32) {
      const Number probability = exponential(row.logit(c) - row.highest) / row.sum;
      gradient[sample * of.classes + c] = static_cast<T>(
          row.is_counted() ? factor * (probability * all_wanted - row.wanted(c)) : Number(0));
    }
  }
}

template <typename T>
unsigned blocks_for(const CrossEntropy<T>& of) {
  constexpr int64_t kMostBlocks = 4096;
  const int64_t blocks = (of.samples + kWarps - 1) / kWarps;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace

template <typename T>
LaunchResult cross_entropy_on_gpu(const CrossEntropy<T>& of,
                                  typename CrossEntropy<T>::Number* losses, void* stream) {
  if (of.samples == 0) return cudaSuccess;
  forward<<<blocks_for(of), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(of, losses);
  return cudaGetLastError();
}

template <typename T>
LaunchResult cross_entropy_backward_on_gpu(const CrossEntropy<T>& of,
                                           const typename CrossEntropy<T>::Number* of_losses,
                                           T* gradient, void* stream) {
  if (of.samples == 0) return cudaSuccess;
  backward<<<blocks_for(of), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(of, of_losses,
                                                                               gradient);
  return cudaGetLastError();
}

#define DTRAIN_FOR(T)                                                                          \
  template LaunchResult cross_entropy_on_gpu(const CrossEntropy<T>&, CrossEntropy<T>::Number*, \
                                             void*);                                           \
  template LaunchResult cross_entropy_backward_on_gpu(const CrossEntropy<T>&,                  \
                                                      const CrossEntropy<T>::Number*, T*, void*);
DTRAIN_FOR(float)
DTRAIN_FOR(double)
DTRAIN_FOR(c10::Half)
DTRAIN_FOR(c10::BFloat16)
#undef DTRAIN_FOR

}  // namespace dtrain::kernels
