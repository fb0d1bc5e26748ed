#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include "core/error.h"
#include "layers/cross_entropy.h"

namespace dtrain::layers {
namespace {

constexpr int64_t kIgnored = -1;

// The losses, and the gradient of the logits for an expanded gradient of the losses.
at::Tensor losses_and_gradient(const at::Tensor& logits, const at::Tensor& targets,
                               const at::Tensor& weights, double label_smoothing) {
  const at::Tensor leaf = logits.detach().requires_grad_();
  const at::Tensor losses = cross_entropy(leaf, targets, weights, label_smoothing, kIgnored);
  losses.sum().backward();
  return at::cat({losses.detach().flatten(), leaf.grad().to(losses.scalar_type()).flatten()});
}

TEST(CrossEntropyOnAGpu, IsThatOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::manual_seed(3);
  const at::Tensor logits = (at::randn({10, 33}, at::kDouble) * 4).t();  // not contiguous
  const at::Tensor targets = at::randint(10, {33}, at::kLong);
  targets[5] = kIgnored;
  for (const double label_smoothing : {0.0, 0.1}) {
    for (const bool weighted : {false, true}) {
      for (const auto& [type, bound] :
           {std::pair(at::kDouble, 1e-12), std::pair(at::kFloat, 1e-5), std::pair(at::kHalf, 1e-3),
            std::pair(at::kBFloat16, 8e-3)}) {
        const at::Tensor given = logits.to(type);
        const at::Tensor weights =
            weighted ? at::rand({10}, at::kDouble).to(loss_type(given)) : at::Tensor();
        const at::Tensor on_cpu = losses_and_gradient(given, targets, weights, label_smoothing);
        const at::Tensor on_gpu = losses_and_gradient(
            given.cuda(), targets.cuda(), weighted ? weights.cuda() : weights, label_smoothing);
        EXPECT_TRUE(at::allclose(on_cpu, on_gpu.cpu(), bound, bound)) << type << weighted;
      }
    }
  }
}

TEST(CrossEntropyOnAGpu, RefusesWhatDoesNotFit) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const at::Tensor logits = at::zeros({2, 3}).cuda(), targets = at::zeros({2}, at::kLong);
  EXPECT_THROW(cross_entropy(logits, targets), Error) << "on the CPU";
  EXPECT_THROW(cross_entropy(logits, targets.cuda().to(at::kInt)), Error);
  EXPECT_THROW(cross_entropy(logits, targets.cuda().repeat(2)), Error);
  EXPECT_THROW(cross_entropy(logits, targets.cuda(), at::ones({3}, at::kDouble).cuda()), Error);
}

}  // namespace
}  // namespace dtrain::layers
