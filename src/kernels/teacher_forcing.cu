#include "kernels/teacher_forcing.h"

namespace dtrain::kernels {
namespace {

__global__ void draw_forced(TeacherForcing forcing, ForcingPlace place, const int64_t* ids,
                            int64_t samples, bool* forced) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < samples) forced[i] = place.draw(forcing, ids[i]);
}

}  // namespace

LaunchResult draw_forced_on_gpu(const TeacherForcing& forcing, const ForcingPlace& place,
                                const int64_t* ids, int64_t samples, bool* forced, void* stream) {
  constexpr int64_t kThreads = 256;
  if (samples == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((samples + kThreads - 1) / kThreads);
  draw_forced<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(forcing, place, ids,
                                                                          samples, forced);
  return cudaGetLastError();
}

}  // namespace dtrain::kernels
