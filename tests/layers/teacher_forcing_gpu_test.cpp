#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "layers/random_context.h"
#include "layers/teacher_forcing.h"

namespace dtrain::layers {
namespace {

TEST(TeacherForcingOnAGpu, HasTheDrawsOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const at::Tensor ids = at::arange(1000) * 1000003;
  for (const int64_t epoch : {0, 3, 6, 9}) {
    const TeacherForcing forcing{0.9, 0.13, 7};
    const at::Tensor on_cpu = forced_samples(random_context(5, 0, ids, epoch), forcing);
    const at::Tensor on_gpu = forced_samples(random_context(5, 0, ids.cuda(), epoch), forcing);
    EXPECT_TRUE(at::equal(on_cpu, on_gpu.cpu())) << epoch;
  }
}

}  // namespace
}  // namespace dtrain::layers
