#pragma once

// The loss of a batch, kept as a sum and a weight: both add up over micro-batches and ranks, and
// are divided once.

#include <torch/types.h>

#include "layers/cross_entropy.h"

namespace dtrain::tasks {

struct Loss {
  at::Tensor per_sample;  // [B] with a graph, float32 or float64
  // Scalar: what the sum is divided by in the end. A number that the host knows is on the CPU.
  at::Tensor weight;

  at::Tensor sum() const { return per_sample.sum(); }  // scalar with a graph
};

using layers::at_least_float32;

// The loss whose weight is the number of samples. per_sample: as in Loss.
inline Loss sample_loss(const at::Tensor& per_sample) {
  return {per_sample, at::full({}, per_sample.numel(), at::kDouble)};
}

}  // namespace dtrain::tasks
