#pragma once

// The numbers that change from step to step and belong to no batch, where the kernels of a step
// read them: the key of its random draws and its learning rate, at addresses that stay the same. So
// a step can be done again with the same arguments of all kernels, as a CUDA graph does it.
//
// Thread-safety: none; the training thread owns it.

#include <torch/types.h>

#include <cstdint>

#include "layers/random_context.h"

namespace dtrain::train {

class StepState {
 public:
  explicit StepState(at::Device);

  struct Numbers {
    uint64_t seed = 0;
    int64_t step = 0, epoch = 0;  // 0-based
    double learning_rate = 0;
  };
  // For all that is queued after it on the current stream. One small copy; the host does not wait
  // for it.
  void write(const Numbers&);

  layers::RandomContext randomness(const at::Tensor& sample_ids) const;
  // The form that the fused optimizers take: a float64 scalar on the CPU, float32 on a GPU.
  const at::Tensor& learning_rate() const { return learning_rate_; }

 private:
  at::Tensor block_;  // int64: each number, the rate as its bits
  at::Tensor seed_, step_, epoch_, learning_rate_;
};

}  // namespace dtrain::train
