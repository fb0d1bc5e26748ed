#pragma once

// A kernel that does nothing for a while, so that what is queued behind it runs without
// gaps (device::hold()).
//
// at::cuda::sleep() does the same, but is in libtorch_cuda.so, which dtrain is not linked
// with (device/device.h).

#include <cuda_runtime_api.h>

#include <cstdint>

namespace dtrain::device {

// Queues a kernel of one thread on a stream of the current device, which ends after `cycles` cycles
// of the GPU's clock, and returns at once. May be called from any thread.
[[nodiscard]] cudaError_t spin(int64_t cycles, cudaStream_t stream);

}  // namespace dtrain::device
