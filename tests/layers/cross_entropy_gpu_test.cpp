#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include "layers/cross_entropy.h"

namespace dtrain::layers {
namespace {

at::Tensor losses_and_gradient(const at::Tensor& logits, const at::Tensor& targets,
                               const at::Tensor& weights, double label_smoothing) {
  const at::Tensor leaf = logits.detach().requires_grad_();
  const at::Tensor losses = cross_entropy(leaf, targets, weights, label_smoothing);
  losses.backward(at::arange(1, losses.numel() + 1, losses.options()));
  return at::cat({losses.detach().flatten(), leaf.grad().to(losses.scalar_type()).flatten()});
}

TEST(CrossEntropyOnAGpu, IsThatOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::manual_seed(3);
  const at::Tensor logits = at::randn({33, 10}, at::kDouble) * 4,
                   targets = at::randint(10, {33}, at::kLong),
                   weights = at::rand({10}, at::kDouble);
  for (const double label_smoothing : {0.0, 0.1}) {
    for (const auto& [type, bound] : {std::pair(at::kDouble, 1e-12), std::pair(at::kFloat, 1e-5)}) {
      const at::Tensor given = logits.to(type), w = weights.to(type);
      const at::Tensor on_cpu = losses_and_gradient(given, targets, w, label_smoothing),
                       on_gpu = losses_and_gradient(given.cuda(), targets.cuda(), w.cuda(),
                                                    label_smoothing);
      EXPECT_TRUE(at::allclose(on_cpu, on_gpu.cpu(), bound, bound)) << type;
    }
  }
}

}  // namespace
}  // namespace dtrain::layers
