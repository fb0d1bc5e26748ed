#pragma once

// Gradient checkpointing (Chen et al. 2016): a segment of a network keeps its input alone, and backward computes what
// is between once more. The gradients are bit for bit those without.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

namespace dtrain::layers {

// fn(input), which uses `parameters` and otherwise only what it owns. It runs again in backward, perhaps on another
// thread, under the RandomContext, autocast state and SyncScope of now; batch norm changes its running statistics and
// meets the other ranks the first time only. fn must not change its input.
at::Tensor checkpointed(std::vector<at::Tensor> parameters, std::function<at::Tensor(const at::Tensor&)> fn,
                        const at::Tensor& input);

// block->forward(x), as such a segment where `on` and a gradient will be wanted.
template <typename Block>
at::Tensor segment(bool on, const std::shared_ptr<Block>& block, const at::Tensor& x) {
  if (!on || !block->is_training() || !at::GradMode::is_enabled()) return block->forward(x);
  return checkpointed(
      block->parameters(), [block](const at::Tensor& input) { return block->forward(input); }, x);
}

}  // namespace dtrain::layers
