#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "layers/dropout.h"

namespace dtrain::layers {
namespace {

TEST(KeyedDropoutOnAGpu, HasTheMaskOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  for (const int64_t elements : {1, 7, 512, 100003}) {
    at::manual_seed(1);
    const at::Tensor x = at::randn({9, elements}), ids = at::arange(9) * 1000003;
    at::Tensor on_cpu, on_gpu;
    {
      const RandomScope scope(random_context(3, 17, ids));
      on_cpu = keyed_dropout(x, 0.3, 2);
    }
    {
      const RandomScope scope(random_context(3, 17, ids.cuda()));
      on_gpu = keyed_dropout(x.cuda(), 0.3, 2);
    }
    EXPECT_TRUE(at::equal(on_cpu, on_gpu.cpu())) << elements;
  }
}

}  // namespace
}  // namespace dtrain::layers
