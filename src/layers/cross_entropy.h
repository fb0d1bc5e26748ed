#pragma once

// The cross entropy of logits and classes.

#include <torch/types.h>

namespace dtrain::layers {

// Losses are computed in float32 at least, whatever precision autocast gave the output of
// the network.
inline at::ScalarType loss_type(const at::Tensor& output) {
  return output.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
inline at::Tensor at_least_float32(const at::Tensor& output) {
  return output.to(loss_type(output));
}

// torch's cross_entropy without a reduction, of the targets' shape and of loss_type(). logits: [B,
// classes] or [B, classes, ...], in any floating type. targets: int64 [B] or [B, ...], where
// ignore_index has a loss of 0. weights: of loss_type(), [classes]; undefined: all are 1. On a GPU
// that of [B, classes] is one kernel. Error if the sizes do not fit.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& weights = {}, double label_smoothing = 0,
                         int64_t ignore_index = -100);

}  // namespace dtrain::layers
