#pragma once

// Gradient checkpointing (Chen et al. 2016): a segment of a network saves only its input for
// backward, which then computes the activations of the segment again. The gradients have the same
// bits as without checkpointing.
//
// It is an autograd function of the segment's input and of its parameters, because hooks on saved
// tensors need Python.

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace dtrain::layers {

// Returns fn(input). fn uses `parameters` and otherwise only what it owns, and must not change its
// input. It runs again in backward, possibly on another thread, with the RandomContext, the
// autocast state and the SyncScope of this call; batch norm updates its running statistics and
// communicates with other ranks only the first time.
at::Tensor checkpointed(std::vector<at::Tensor> parameters,
                        std::function<at::Tensor(const at::Tensor&)> fn, const at::Tensor& input);

// Returns block->forward(x), as a checkpointed segment if `on` and if gradients are computed.
template <typename Block>
at::Tensor segment(bool on, const std::shared_ptr<Block>& block, const at::Tensor& x) {
  if (!on || !block->is_training() || !at::GradMode::is_enabled()) return block->forward(x);
  return checkpointed(
      block->parameters(), [block](const at::Tensor& input) { return block->forward(input); }, x);
}

}  // namespace dtrain::layers
