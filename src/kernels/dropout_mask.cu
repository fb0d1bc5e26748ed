#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>

#include "kernels/dropout_mask.h"

namespace dtrain::kernels {
namespace {

// Blocks of one row of the grid take samples, so that no thread divides.
template <typename T>
__global__ void fill_mask(DropoutKeyPlace place, float p, const int64_t* ids, int64_t samples,
                          int64_t elements, T kept, T* mask) {
  const DropoutKey key = place.read();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t sample = blockIdx.y; sample < samples; sample += gridDim.y) {
    const uint64_t own = sample_key(key, ids[sample]);
    T* row = mask + sample * elements;
    for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < elements;
         e += stride)
      row[e] = keeps(own, e, p) ? kept : T(0);
  }
}

}  // namespace

template <typename T>
LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace& key, float p, const int64_t* ids,
                                      int64_t samples, int64_t elements, T kept, T* mask,
                                      void* stream) {
  constexpr int64_t kThreads = 256, kMostBlocks = 4096, kMostRows = 65535;
  if (samples * elements == 0) return cudaSuccess;
  const int64_t rows = std::min(samples, kMostRows);
  const int64_t columns =
      std::min((elements + kThreads - 1) / kThreads, std::max<int64_t>(1, kMostBlocks / rows));
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(rows));
  fill_mask<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(key, p, ids, samples,
                                                                      elements, kept, mask);
  return cudaGetLastError();
}

#define DTRAIN_FOR(T)                                                                           \
  template LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace&, float, const int64_t*, \
                                                 int64_t, int64_t, T, T*, void*);
DTRAIN_FOR(float)
DTRAIN_FOR(double)
DTRAIN_FOR(c10::Half)
DTRAIN_FOR(c10::BFloat16)
#undef DTRAIN_FOR

}  // namespace dtrain::kernels
