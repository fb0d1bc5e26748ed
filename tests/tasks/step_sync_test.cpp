// Promise 7 of docs/promises.md: inside a step the host does not wait for the device. Counted on
// the CPU for every task, by the operators that would wait on a GPU.

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "models/pointer_network.h"
#include "support/sync_counter.h"
#include "tasks/task_steps.h"

namespace dtrain::tasks {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::SyncCounter;

class StepSync : public ::testing::TestWithParam<std::pair<std::string, config::Config>> {};

TEST_P(StepSync, NothingInAStepWaitsForTheDevice) {
  std::optional<SyncCounter> counter;
  std::vector<std::string> found;
  int64_t calls = 0;
  const train::TrainResult result =
      train_measured(GetParam().second, at::kCPU, train::Precision::kFp32, [&](bool on) {
        if (on) {
          counter.emplace();
        } else {
          found = counter->found();
          calls = counter->calls();
          counter.reset();
        }
      });
  EXPECT_EQ(result.steps, kStepsInAll);
  EXPECT_GT(calls, 100 * kMeasuredSteps) << "nothing was observed";
  EXPECT_THAT(found, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(EachTask, StepSync, ::testing::ValuesIn(step_cases()),
                         [](const auto& info) { return info.param.first; });

TEST(DecodingSync, ThePointersLoopDoesNotWaitForTheDevice) {
  models::PointerNetwork network({.features = 8, .hidden = 16, .dropout = 0, .seed = 1});
  network.eval();
  const models::Sets sets{at::rand({5, 9, 8}), at::tensor({9, 3, 1, 7, 8}, at::kLong),
                          /*padded=*/true};
  const at::NoGradGuard no_grad;
  const SyncCounter counter;
  network.choose(sets, network.encode(sets));
  EXPECT_GT(counter.calls(), 9 * 10);
  EXPECT_THAT(counter.found(), IsEmpty());
}

// What the test would miss if it observed nothing.
TEST(SyncCounter, SeesEachKindOfWait) {
  const at::Tensor x = at::arange(6, at::kFloat);
  const auto found_in = [&](const auto& body) {
    const SyncCounter counter;
    body();
    return counter.found();
  };
  EXPECT_THAT(found_in([&] { x.add(1).mul(2).sum(); }), IsEmpty());
  EXPECT_THAT(found_in([&] { x.sum().item<float>(); }), Contains("aten::item"));
  EXPECT_THAT(found_in([&] { x.sum().item<float>(); }), SizeIs(1));
  EXPECT_THAT(found_in([&] { (x[0] == 0).is_nonzero(); }), Contains("aten::is_nonzero"));
  EXPECT_THAT(found_in([&] { x.index({x > 2}); }), Contains(HasSubstr("aten::nonzero")));
  EXPECT_THAT(found_in([&] { x.masked_select(x > 2); }),
              Contains(HasSubstr("aten::masked_select")));
  EXPECT_THAT(found_in([&] { x.equal(x.clone()); }), Contains("aten::equal"));
  EXPECT_THAT(found_in([&] { x.allclose(x.clone()); }), Contains("aten::allclose"));
  EXPECT_THAT(found_in([&] { at::unique_dim(x, 0); }), Contains("aten::unique_dim"));
  EXPECT_THAT(found_in([&] { at::unique_consecutive(x); }), Contains("aten::unique_consecutive"));
  const at::Tensor repeats = at::tensor({1, 2, 3}, at::kLong);
  EXPECT_THAT(found_in([&] { at::repeat_interleave(repeats); }),
              Contains("aten::repeat_interleave"));
  EXPECT_THAT(found_in([&] { x.narrow(0, 0, 3).repeat_interleave(repeats, 0); }),
              Contains("aten::repeat_interleave"));
  EXPECT_THAT(found_in([&] { x.narrow(0, 0, 3).repeat_interleave(repeats, 0, 6); }), IsEmpty())
      << "the size is known";
  EXPECT_THAT(found_in([&] { x.repeat_interleave(2); }), IsEmpty());
  EXPECT_THAT(found_in([&] { x.to(at::kCPU); }), Contains("aten::to"));
  EXPECT_THAT(found_in([&] { x.to(at::Device(at::kCPU), at::kDouble); }), Contains("aten::to"));
  EXPECT_THAT(found_in([&] { x.to(at::Device(at::kCPU), /*non_blocking=*/true); }), IsEmpty())
      << "to the device";
  EXPECT_THAT(found_in([&] { x.to(at::kDouble); }), IsEmpty());
  at::Tensor weight = at::ones({3}).set_requires_grad(true);
  EXPECT_THAT(found_in([&] { (weight * weight.detach().sum().item<float>()).sum().backward(); }),
              SizeIs(1));
}

}  // namespace
}  // namespace dtrain::tasks
