#include <algorithm>

#include "kernels/dropout_mask.h"

namespace dtrain::kernels {
namespace {

__global__ void fill_mask(DropoutKeyPlace place, float p, const int64_t* ids, int64_t count,
                          int64_t elements, uint8_t* mask) {
  const DropoutKey key = place.read();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    mask[i] = keeps(sample_key(key, ids[i / elements]), i % elements, p) ? 1 : 0;
  }
}

}  // namespace

LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace& key, float p, const int64_t* ids,
                                      int64_t samples, int64_t elements, uint8_t* mask,
                                      void* stream) {
  constexpr int64_t kThreads = 256, kMostBlocks = 4096;
  const int64_t count = samples * elements;
  if (count == 0) return cudaSuccess;
  const auto blocks =
      static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  fill_mask<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(key, p, ids, count,
                                                                        elements, mask);
  return cudaGetLastError();
}

}  // namespace dtrain::kernels
