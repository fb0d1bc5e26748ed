#include "train/phase_clock.h"

#include <gtest/gtest.h>

#include <chrono>

#include "support/fake_clock.h"

namespace dtrain::train {
namespace {

using measure::Phase;
using testing::FakeClock;

// Of each wait. Moments are whole nanoseconds, so sums differ from it by their rounding alone.
constexpr std::chrono::milliseconds kWait{20};

TEST(PhaseClock, CountsTheTimeOfEachPhaseAndNoneInBetween) {
  const FakeClock time;
  PhaseClock clock(at::kCPU, time);
  const auto wait = [&] { time.advance(kWait); };
  clock.enter(Phase::kForward);
  wait();
  clock.enter(Phase::kBackward);
  wait();
  wait();
  clock.stop();
  wait();
  clock.enter(Phase::kForward);
  wait();
  clock.stop();
  clock.synchronize();
  const auto& totals = clock.totals();
  const double forward = totals[static_cast<size_t>(Phase::kForward)],
               backward = totals[static_cast<size_t>(Phase::kBackward)];
  EXPECT_DOUBLE_EQ(forward, 0.040);
  EXPECT_DOUBLE_EQ(backward, 0.040);
  double sum = 0;
  for (const double seconds : totals) sum += seconds;
  EXPECT_DOUBLE_EQ(sum, forward + backward);
}

TEST(PhaseClock, AStepLastsUntilTheNextOneBegins) {
  const FakeClock time;
  PhaseClock clock(at::kCPU, time);
  const auto wait = [&] { time.advance(kWait); };
  clock.enter(Phase::kEval);  // before the first step
  wait();
  clock.stop();
  for (int step = 0; step < 3; ++step) {
    clock.begin_step();
    clock.enter(Phase::kDataWait);
    wait();
    clock.enter(Phase::kForward);
    clock.stop();
    wait();  // in no phase
    if (step == 1) {
      clock.enter(Phase::kCheckpoint);
      wait();
      clock.stop();
    }
  }
  const std::vector<measure::StepTimes> steps = clock.take_steps();
  ASSERT_EQ(steps.size(), 2u) << "the third has not ended";
  for (const measure::StepTimes& step : steps) {
    EXPECT_EQ(step.of(Phase::kEval), 0);
    EXPECT_DOUBLE_EQ(step.of(Phase::kDataWait), 0.020);
    EXPECT_EQ(step.of(Phase::kForward), 0);
    EXPECT_NEAR(step.other(), 0.020, 1e-12);
  }
  EXPECT_EQ(steps[0].of(Phase::kCheckpoint), 0);
  EXPECT_DOUBLE_EQ(steps[1].of(Phase::kCheckpoint), 0.020);
  EXPECT_TRUE(clock.take_steps().empty());
}

}  // namespace
}  // namespace dtrain::train
