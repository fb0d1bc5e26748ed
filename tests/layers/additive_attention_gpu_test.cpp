#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/cuda.h>

#include "layers/additive_attention.h"

namespace dtrain::layers {
namespace {

TEST(PointerLossesOnAGpu, EqualThoseOfTheCpuForAllLengths) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::manual_seed(1);
  constexpr int64_t kSteps = 7, kSamples = 5, kHidden = 37;
  const at::Tensor keys = at::randn({kSteps, kSamples, kHidden}),
                   queries = at::randn({kSteps, kSamples, kHidden});
  const at::Tensor v = at::randn({kHidden}), order = at::arange(kSteps).repeat({kSamples, 1});
  // Chosen already: the sample's loss is infinite, and its later steps have no gradient
  order[2][1] = 0;
  const at::Tensor lengths = at::tensor({7, 1, 4, -2, 9}, at::kLong);
  const auto run = [&](at::Device device) {  // the losses and the gradients of keys, queries and v
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& x : {keys, queries, v})
      inputs.push_back(x.to(device).detach().set_requires_grad(true));
    const at::Tensor losses =
        pointer_losses(inputs[0], inputs[1], inputs[2], order.to(device), lengths.to(device));
    std::vector<at::Tensor> results = torch::autograd::grad({losses.sum()}, inputs);
    results.push_back(losses.detach());
    for (at::Tensor& result : results) result = result.cpu();
    return results;
  };
  const std::vector<at::Tensor> cpu = run(at::kCPU), gpu = run(at::kCUDA);
  for (size_t i = 0; i < cpu.size(); ++i)
    EXPECT_TRUE(at::allclose(gpu[i], cpu[i], 1e-5, 1e-5)) << i;
}

}  // namespace
}  // namespace dtrain::layers
