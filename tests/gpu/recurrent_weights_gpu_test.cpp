#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "support/recurrent_networks.h"
#include "tasks/module/recurrent_weights.h"

namespace dtrain::tasks {
namespace {

TEST(RecurrentWeightsOnAGpu, LieInOnePieceAndGiveTheSame) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  // On by default in LibTorch; differs from the CPU in the fourth digit
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  const at::Tensor x = at::randn({4, 6, 5});
  for (const testing::RecurrentNetwork& network : testing::recurrent_networks()) {
    SCOPED_TRACE(network.name);
    const at::Tensor expected = network.output(x).detach();
    torch::nn::Module root;
    root.register_module("layer", network.module);
    root.to(at::kCUDA);
    flatten_recurrent_weights(root);
    const auto found = recurrent_weights(*network.module);
    for (const at::Tensor& weight : found->weights)
      EXPECT_TRUE(weight.is_alias_of(found->weights.front()));
    EXPECT_LE((network.output(x.cuda()).cpu() - expected).abs().max().item<double>(), 1e-5);
  }
}

}  // namespace
}  // namespace dtrain::tasks
