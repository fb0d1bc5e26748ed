#pragma once

// The cross entropy of each sample and its gradient on a GPU, as torch's cross_entropy without a
// reduction: of classes, with weights of classes and label smoothing.
//
// Reason: two launches in place of eight (bench/gpu_launches.py --kernels simple_cnn), of
// LibTorch's casts, softmax, loss and fills. The CPU uses LibTorch's. Delete it when LibTorch has a
// fused one, or when whole steps are captured in a graph for every task.

#include <cstdint>
#include <type_traits>

#include "kernels/launch_check.h"

namespace dtrain::kernels {

// T: of the logits. All is computed as Number.
template <typename T>
struct CrossEntropy {
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;

  const T* logits;  // [samples, classes]
  // [samples]; of one that is neither a class nor ignored, loss and gradient are NaN
  const int64_t* targets;
  const Number* weights;  // [classes]; null: all are 1
  int64_t samples, classes;
  Number smoothing;      // the share of a target that all classes share
  int64_t ignore_index;  // a target without a loss
};

// Write losses [samples], and the gradient [samples, classes] of the logits from that of the
// losses. All is memory of the current device, and the kernels are queued on `stream` (a
// cudaStream_t). T: float, double, c10::Half, c10::BFloat16. DeviceError in a build without
// GPU code.
template <typename T>
[[nodiscard]] LaunchResult cross_entropy_on_gpu(const CrossEntropy<T>&,
                                                typename CrossEntropy<T>::Number* losses,
                                                void* stream);
template <typename T>
[[nodiscard]] LaunchResult cross_entropy_backward_on_gpu(
    const CrossEntropy<T>&, const typename CrossEntropy<T>::Number* of_losses, T* gradient,
    void* stream);

}  // namespace dtrain::kernels
