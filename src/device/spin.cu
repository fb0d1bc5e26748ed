// A kernel that does nothing for a while, for device::hold(): what is queued behind it runs without
// gaps. at::cuda::sleep() does the same, but is in libtorch_cuda.so, with which dtrain is not
// linked (load_gpu_operators() in device/device.h).

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dtrain::device {
namespace {

__global__ void wait_for(int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

}  // namespace

cudaError_t spin(int64_t cycles, cudaStream_t stream) {
  wait_for<<<1, 1, 0, stream>>>(cycles);
  return cudaGetLastError();
}

}  // namespace dtrain::device
