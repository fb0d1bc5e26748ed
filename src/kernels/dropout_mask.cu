#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>

#include "kernels/dropout_mask.h"

namespace dtrain::kernels {
namespace {

template <typename T>
__global__ void fill_mask(DropoutKeyPlace place, float p, const int64_t* ids, int64_t count,
                          int64_t elements, T kept, T* mask) {
  const DropoutKey key = place.read();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    mask[i] = keeps(sample_key(key, ids[i / elements]), i % elements, p) ? kept : T(0);
  }
}

}  // namespace

template <typename T>
LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace& key, float p, const int64_t* ids,
                                      int64_t samples, int64_t elements, T kept, T* mask,
                                      void* stream) {
  constexpr int64_t kThreads = 256, kMostBlocks = 4096;
  const int64_t count = samples * elements;
  if (count == 0) return cudaSuccess;
  const auto blocks =
      static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  fill_mask<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(key, p, ids, count,
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
