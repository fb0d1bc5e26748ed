#include <string>

#include "core/error.h"
#include "device/spin.h"

namespace dtrain::device {
namespace {

__global__ void wait_for(int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

}  // namespace

void spin(int64_t cycles, void* stream) {
  wait_for<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(cycles);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw DeviceError(std::string("cannot launch the kernel that waits: ") + cudaGetErrorString(error));
  }
}

}  // namespace dtrain::device
