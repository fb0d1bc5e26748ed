#include <algorithm>

#include "data/augment/augment_cuda.h"
#include "data/augment/augment_pixel.h"

namespace dtrain::data {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxTiles = 65535;  // limit of gridDim.y

// Grid: x is the sample, y a tile of its pixels.
__global__ void sum_grey(AugmentBatch batch) {
  const int64_t sample = blockIdx.x;
  const SampleAugment a = batch.augments[sample];
  if (a.contrast == 1) return;  // returns the whole block: all its threads have the same sample
  const uint8_t* image = batch.images + sample * batch.shape.bytes();
  const int32_t side = batch.side, pixels = side * side;
  unsigned long long sum = 0;
  for (int32_t p = blockIdx.y * kThreads + threadIdx.x; p < pixels; p += gridDim.y * kThreads) {
    sum += grey_units(source_pixel(image, batch.shape, a, side, p / side, p % side));
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(batch.grey_sums) + sample, sum);
}

__global__ void finish(AugmentBatch batch) {
  const int64_t sample = blockIdx.x;
  const SampleAugment a = batch.augments[sample];
  const uint8_t* image = batch.images + sample * batch.shape.bytes();
  const int32_t side = batch.side, pixels = side * side;
  const float mean =
      batch.grey_sums ? mean_grey(static_cast<int64_t>(batch.grey_sums[sample]), side) : 0.0f;
  float* out = batch.out + sample * 3 * pixels;
  for (int32_t p = blockIdx.y * kThreads + threadIdx.x; p < pixels; p += gridDim.y * kThreads) {
    const Rgb pixel = source_pixel(image, batch.shape, a, side, p / side, p % side);
    finished_pixel(pixel, mean, a, batch.norm, out + 3 * static_cast<int64_t>(p));
  }
}

}  // namespace

cudaError_t augment(const AugmentBatch& batch, cudaStream_t stream) {
  const int64_t pixels = static_cast<int64_t>(batch.side) * batch.side;
  const dim3 grid(static_cast<unsigned>(batch.samples),
                  static_cast<unsigned>(std::min((pixels + kThreads - 1) / kThreads, kMaxTiles)));
  if (batch.grey_sums) {
    const size_t bytes = static_cast<size_t>(batch.samples) * sizeof(uint64_t);
    if (const cudaError_t error = cudaMemsetAsync(batch.grey_sums, 0, bytes, stream)) return error;
    sum_grey<<<grid, kThreads, 0, stream>>>(batch);
  }
  finish<<<grid, kThreads, 0, stream>>>(batch);
  return cudaGetLastError();
}

}  // namespace dtrain::data
