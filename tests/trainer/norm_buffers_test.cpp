#include "train/norm_buffers.h"

#include <gtest/gtest.h>

#include "dist/thread_communicator.h"

namespace dtrain::train {
namespace {

TEST(AveragedBuffers, AreTheWeightedMeanForAWhileOnly) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    torch::nn::BatchNorm2d norm(2);
    const double rank = comm.rank();
    norm->running_mean.fill_(rank);
    norm->running_var.fill_(10 * rank);
    norm->num_batches_tracked.fill_(5 + comm.rank());
    {
      const AveragedBuffers averaged(*norm, comm, /*samples_seen=*/comm.rank() == 2 ? 30 : 10);
      const double mean = (0 * 10 + 1 * 10 + 2 * 30) / 50.0;
      EXPECT_TRUE(at::allclose(norm->running_mean, at::full({2}, mean)));
      EXPECT_TRUE(at::allclose(norm->running_var, at::full({2}, 10 * mean)));
      EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 7);
    }
    EXPECT_TRUE(at::equal(norm->running_mean, at::full({2}, rank)));
    EXPECT_TRUE(at::equal(norm->running_var, at::full({2}, 10 * rank)));
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 5 + comm.rank());
  });
}

TEST(AveragedBuffers, OneRankKeepsItsBits) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    torch::nn::BatchNorm2d norm(2);
    norm->running_mean.uniform_();
    const at::Tensor before = norm->running_mean.clone();
    const AveragedBuffers averaged(*norm, comm, 3);
    EXPECT_TRUE(at::equal(norm->running_mean, before));
  });
}

TEST(AveragedBuffers, BeforeAnySampleTheInitialValuesStay) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    torch::nn::BatchNorm2d norm(2);
    const AveragedBuffers averaged(*norm, comm, 0);
    EXPECT_TRUE(at::equal(norm->running_var, at::ones({2})));
  });
}

}  // namespace
}  // namespace dtrain::train
