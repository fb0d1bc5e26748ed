#include "train/norm_buffers.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <limits>
#include <memory>

#include "support/thread_world.h"

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

// As on a GPU that has failed: every operation on the memory throws.
TEST(AveragedBuffers, ADeviceThatFailsMeanwhileDoesNotEndTheProcess) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    torch::nn::BatchNorm2d norm(2);
    auto averaged = std::make_unique<AveragedBuffers>(*norm, comm, /*samples_seen=*/1);
    norm->running_mean.storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
    EXPECT_THROW(norm->running_mean.zero_(), c10::Error);
    averaged.reset();
  });
}

// A user's module may have other buffers than statistics.
class Masks : public torch::nn::Module {
 public:
  at::Tensor seen = register_buffer("seen", at::zeros({2}, at::kBool));
  at::Tensor steps = register_buffer("steps", at::zeros({}, at::kInt));
  at::Tensor mask = register_buffer("mask", at::zeros({2}));
};

TEST(AveragedBuffers, OfAnyTypeAreAgreedOnAndPutBack) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    Masks masks;
    masks.seen[comm.rank()] = true;
    masks.steps.fill_(3 + comm.rank());
    {
      const AveragedBuffers averaged(masks, comm, /*samples_seen=*/4);
      EXPECT_TRUE(at::equal(masks.seen, at::ones({2}, at::kBool)));
      EXPECT_TRUE(at::equal(masks.steps, at::full({}, 4, at::kInt)));
    }
    EXPECT_TRUE(masks.seen[comm.rank()].item<bool>());
    EXPECT_FALSE(masks.seen[1 - comm.rank()].item<bool>());
    EXPECT_EQ(masks.steps.item<int32_t>(), 3 + comm.rank());
  });
}

TEST(AveragedBuffers, ARankWithoutSamplesAddsNothingNotEvenInfinities) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    Masks masks;
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    masks.mask[1] = kNever;
    masks.mask[0] = comm.rank() == 0 ? 2.0f : kNever;
    const AveragedBuffers averaged(masks, comm, /*samples_seen=*/comm.rank() == 0 ? 5 : 0);
    EXPECT_TRUE(at::equal(masks.mask, at::tensor({2.0f, kNever}))) << masks.mask;
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
