#pragma once

// What a training step does with its losses (train/note_losses.h), for tests of the reducer alone.

#include <torch/types.h>

#include "dist/gradient_reducer.h"

namespace dtrain::dist {

// Adds scalars of the device of the gradients, with or without a graph, to those of this step.
inline void add_loss(GradientReducer& reducer, const at::Tensor& sum, const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  reducer.running_sums().select(0, 0).add_(sum.detach().reshape({}));
  reducer.running_sums().select(0, 1).add_(weight.detach().reshape({}));
}

}  // namespace dtrain::dist
