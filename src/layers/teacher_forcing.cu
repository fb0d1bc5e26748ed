#include "layers/teacher_forcing.h"

#include <string>

#include "core/error.h"

namespace dtrain::layers {
namespace {

__global__ void draw_forced(TeacherForcing forcing, ForcingPlace place, const int64_t* ids, int64_t samples,
                            bool* forced) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < samples) forced[i] = place.draw(forcing, ids[i]);
}

}  // namespace

void draw_forced_on_gpu(const TeacherForcing& forcing, const ForcingPlace& place, const int64_t* ids, int64_t samples,
                        bool* forced, void* stream) {
  constexpr int64_t kThreads = 256;
  if (samples == 0) return;
  const auto blocks = static_cast<unsigned>((samples + kThreads - 1) / kThreads);
  draw_forced<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(forcing, place, ids, samples, forced);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw DeviceError(std::string("cannot launch the kernel of teacher forcing: ") + cudaGetErrorString(error));
  }
}

}  // namespace dtrain::layers
