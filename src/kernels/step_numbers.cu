#include "kernels/step_numbers.h"

#include "kernels/sum_of_block.h"

namespace dtrain::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void find_one_factor(ScalerNumbers of, double power) { find_factor(of, power); }

__global__ void end_one_step(ScalerNumbers of, ScalerRule rule) { end_scaled_step(of, rule); }

// One block, whose first thread writes the record, in the order of the samples, and the sums.
template <typename T>
__global__ void note(NotedLosses<T> all) {
  __shared__ bool bad[kThreads];
  const LossesOfSamples<T>& of = all.of;
  const auto thread = static_cast<int>(threadIdx.x);
  const bool noted = of.is_noted();
  const T gradient = static_cast<T>(*all.scale) * static_cast<T>(all.power);
  int64_t count = 0;
  double sum = 0;
  for (int64_t first = 0; first < of.samples; first += kThreads) {
    const int64_t i = first + thread;
    bad[thread] = i < of.samples && of.is_bad(i);
    if (i < of.samples) {
      sum += static_cast<double>(of.losses[i]);
      all.gradient[i] = gradient;
    }
    __syncthreads();
    for (int k = 0; thread == 0 && !noted && k < kThreads; ++k)
      if (bad[k]) of.name(count++, first + k);
    __syncthreads();
  }
  const double whole = sum_of_block<kThreads>(sum);
  if (thread > 0) return;
  if (!noted) of.end(count);
  all.sums[0] += whole;
  all.sums[1] += all.weight_on_device != nullptr ? *all.weight_on_device : all.weight;
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
LaunchResult note_losses_on_gpu(const NotedLosses<T>& all, void* stream) {
  note<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(all);
  return cudaGetLastError();
}

template LaunchResult note_losses_on_gpu<float>(const NotedLosses<float>&, void*);
template LaunchResult note_losses_on_gpu<double>(const NotedLosses<double>&, void*);

}  // namespace dtrain::kernels
