#include "kernels/unscale.h"

#include <cmath>

#include "kernels/sum_of_block.h"

namespace dtrain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPack = 4;  // elements of 16 bytes

struct alignas(16) Pack {
  float values[kPack];
};

__global__ void multiply(FlatGradients of, ScalerNumbers numbers, double power, double* partial) {
  int bucket = 0;
  int64_t block = blockIdx.x;
  for (int64_t blocks; block >= (blocks = FlatGradients::blocks_of(of.elements[bucket]));
       block -= blocks)
    ++bucket;
  const int64_t begin = block * FlatGradients::kOfBlock, left = of.elements[bucket] - begin;
  const int64_t count = left < FlatGradients::kOfBlock ? left : FlatGradients::kOfBlock;
  float* data = of.data[bucket] + begin;
  const auto factor = static_cast<float>(factor_of(numbers, power));
  double sum = 0;
  const int64_t packs = reinterpret_cast<uintptr_t>(data) % sizeof(Pack) == 0 ? count / kPack : 0;
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    Pack pack = reinterpret_cast<const Pack*>(data)[i];
    for (float& value : pack.values) {
      value *= factor;
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
    reinterpret_cast<Pack*>(data)[i] = pack;
  }
  for (int64_t i = packs * kPack + threadIdx.x; i < count; i += kThreads) {
    data[i] *= factor;
    sum += static_cast<double>(data[i]) * static_cast<double>(data[i]);
  }
  const double whole = sum_of_block<kThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = whole;
}

__global__ void find_norm(const double* partial, int64_t blocks, ScalerNumbers numbers,
                          double power, float* norm) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) sum += partial[i];
  const double whole = sum_of_block<kThreads>(sum);
  if (threadIdx.x != 0) return;
  find_factor(numbers, power);
  *norm = static_cast<float>(sqrt(whole));
  if (!is_finite(whole)) *numbers.found_inf = 1;
  *numbers.taken = 1 - *numbers.found_inf;
}

}  // namespace

LaunchResult unscale_on_gpu(const FlatGradients& of, const ScalerNumbers& numbers, double power,
                            double* partial, float* norm, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const int64_t blocks = of.blocks();
  if (blocks > 0) {
    multiply<<<static_cast<unsigned>(blocks), kThreads, 0, queue>>>(of, numbers, power, partial);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  find_norm<<<1, kThreads, 0, queue>>>(partial, blocks, numbers, power, norm);
  return cudaGetLastError();
}

}  // namespace dtrain::kernels
