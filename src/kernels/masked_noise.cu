#include <algorithm>

#include "kernels/masked_noise.h"

namespace dtrain::kernels {
namespace {

template <typename T>
__global__ void hide_and_noise(MaskedNoise m, NoiseBatch<T> batch) {
  const int64_t rows = batch.samples * batch.longest,
                stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const NoiseKey key = batch.key();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows;
       i += stride) {
    const int64_t sample = i / batch.longest, row = i % batch.longest;
    const bool valid = row < batch.length(sample);
    const HiddenBlocks blocks = hidden_blocks(m, key, batch.ids[sample], batch.length(sample));
    const bool hidden = valid && is_hidden(m, blocks, row);
    batch.hidden[i] = hidden;
    for (int64_t f = 0; f < batch.features; ++f) {
      const int64_t e = i * batch.features + f;
      batch.out[e] =
          valid && !hidden ? noised(m, blocks, batch.rows[e], row * batch.features + f) : T(0);
    }
  }
}

}  // namespace

template <typename T>
LaunchResult hide_and_noise_on_gpu(const MaskedNoise& m, const NoiseBatch<T>& batch, void* stream) {
  constexpr int64_t kThreads = 256, kMostBlocks = 4096;
  const int64_t rows = batch.samples * batch.longest;
  if (rows == 0) return cudaSuccess;
  const auto blocks =
      static_cast<unsigned>(std::min((rows + kThreads - 1) / kThreads, kMostBlocks));
  hide_and_noise<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(m, batch);
  return cudaGetLastError();
}

template LaunchResult hide_and_noise_on_gpu<float>(const MaskedNoise&, const NoiseBatch<float>&,
                                                   void*);
template LaunchResult hide_and_noise_on_gpu<double>(const MaskedNoise&, const NoiseBatch<double>&,
                                                    void*);

}  // namespace dtrain::kernels
