#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "layers/masked_noise.h"

namespace dtrain::layers {
namespace {

TEST(MaskedNoiseOnAGpu, HasTheBitsOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::manual_seed(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor rows = at::randn({9, 333, 7}, dtype), ids = at::arange(9) * 1000003;
    const at::Tensor lengths = at::tensor({333, 1, 2, 17, 100, 256, 300, 0, 400}, at::kLong);
    const MaskedNoise m{.noise = 0.2f, .share = 0.4f, .span = 6};
    const NoisedRows cpu = hide_and_noise(rows, lengths, random_context(5, 0, ids, 3), m);
    const NoisedRows gpu =
        hide_and_noise(rows.cuda(), lengths.cuda(), random_context(5, 0, ids.cuda(), 3), m);
    EXPECT_TRUE(at::equal(cpu.rows, gpu.rows.cpu()));
    EXPECT_TRUE(at::equal(cpu.hidden, gpu.hidden.cpu()));
  }
}

}  // namespace
}  // namespace dtrain::layers
