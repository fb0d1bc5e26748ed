#pragma once

// The one pass over a step's gradients on a GPU: they are multiplied by the factor of the loss
// scaler (step_numbers.h), and their norm is found, which tells whether all of them are finite.
//
// Reason: two launches, in place of four and one for each bucket, and one pass over memory in place
// of two. Delete it when LibTorch's fused optimizers take a norm, or when whole steps are captured
// in a graph for every task.

#include <array>
#include <cstdint>

#include "core/host_device.h"
#include "kernels/launch_check.h"
#include "kernels/step_numbers.h"

namespace dtrain::kernels {

// Buckets of float32 gradients, as an argument of a kernel.
struct FlatGradients {
  static constexpr int kMost = 32;
  static constexpr int64_t kOfBlock = 8192;  // elements that a block of threads takes

  float* data[kMost];
  int64_t elements[kMost];
  int count = 0;

  void add(float* bucket, int64_t size) {
    data[count] = bucket;
    elements[count++] = size;
  }
  DTRAIN_HD static int64_t blocks_of(int64_t size) { return (size + kOfBlock - 1) / kOfBlock; }
  int64_t blocks() const {
    int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += blocks_of(elements[i]);
    return sum;
  }
};

// Does what find_factor() does, and for each gradient g: g = g × factor in float32. *norm is the
// Euclidean norm of the result, summed in float64 in one order. found_inf is 1 too if it is not
// finite, and `taken` is set. `partial`: FlatGradients::blocks() numbers. All is memory of the
// current device, and the kernels are queued on `stream` (a cudaStream_t). DeviceError in a build
// without GPU code.
[[nodiscard]] LaunchResult unscale_on_gpu(const FlatGradients&, const ScalerNumbers&, double power,
                                          double* partial, float* norm, void* stream);

}  // namespace dtrain::kernels
