#pragma once

// The loss of a batch, kept as a sum and a weight: both add up over micro-batches and ranks, and
// are divided once.

#include <torch/types.h>

namespace dtrain::tasks {

struct Loss {
  at::Tensor sum;  // scalar with a graph: sum over the batch
  // Scalar: what the sum is divided by in the end. A number that the host knows is on the CPU.
  at::Tensor weight;
  // [B] detached; may be undefined. Names the samples of a loss that is not finite
  at::Tensor per_sample;
};

// Losses are computed in float32 at least, whatever precision autocast gave the output of
// the network.
inline at::Tensor at_least_float32(const at::Tensor& output) {
  return output.scalar_type() == at::kDouble ? output : output.to(at::kFloat);
}

// The loss whose weight is the number of samples. per_sample: [B] with a graph.
inline Loss sample_loss(const at::Tensor& per_sample) {
  return {per_sample.sum(), at::full({}, per_sample.numel(), at::kDouble), per_sample.detach()};
}

}  // namespace dtrain::tasks
