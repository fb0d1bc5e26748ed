#include "kernels/step_numbers.h"

namespace dtrain::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void find_one_factor(ScalerNumbers of, double power) { find_factor(of, power); }

__global__ void end_one_step(ScalerNumbers of, ScalerRule rule) { end_scaled_step(of, rule); }

// One block, whose first thread writes the record, in the order of the samples.
template <typename T>
__global__ void note(LossesOfSamples<T> of) {
  __shared__ bool bad[kThreads];
  const auto thread = static_cast<int>(threadIdx.x);
  const bool noted = of.is_noted();
  int64_t count = 0;
  for (int64_t first = 0; first < of.samples; first += kThreads) {
    const int64_t i = first + thread;
    bad[thread] = i < of.samples && of.is_bad(i);
    __syncthreads();
    for (int k = 0; thread == 0 && !noted && k < kThreads; ++k)
      if (bad[k]) of.name(count++, first + k);
    __syncthreads();
  }
  if (thread == 0 && !noted) of.end(count);
}

}  // namespace

LaunchResult find_factor_on_gpu(const ScalerNumbers& of, double power, void* stream) {
  find_one_factor<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(of, power);
  return cudaGetLastError();
}

LaunchResult end_scaled_step_on_gpu(const ScalerNumbers& of, const ScalerRule& rule, void* stream) {
  end_one_step<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(of, rule);
  return cudaGetLastError();
}

template <typename T>
LaunchResult note_bad_losses_on_gpu(const LossesOfSamples<T>& of, void* stream) {
  if (of.samples == 0) return cudaSuccess;
  note<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(of);
  return cudaGetLastError();
}

template LaunchResult note_bad_losses_on_gpu<float>(const LossesOfSamples<float>&, void*);
template LaunchResult note_bad_losses_on_gpu<double>(const LossesOfSamples<double>&, void*);

}  // namespace dtrain::kernels
