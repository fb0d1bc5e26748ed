#pragma once

// A kernel that does nothing for a while, so that what is queued behind it runs without gaps (device::hold()).
//
// at::cuda::sleep() does the same, but is in libtorch_cuda.so, which dtrain is not linked with (device/device.h).

#include <cstdint>

namespace dtrain::device {

// Queues a kernel of one thread on `stream` (a cudaStream_t) of the current device, which ends after so many cycles of
// the GPU's clock, and returns at once. DeviceError if it cannot be launched. May be called from any thread.
void spin(int64_t cycles, void* stream);

}  // namespace dtrain::device
