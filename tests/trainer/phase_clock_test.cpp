#include "train/phase_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace dtrain::train {
namespace {

using monitoring::Phase;

TEST(PhaseClock, CountsTheTimeOfEachPhaseAndNoneInBetween) {
  PhaseClock clock(at::kCPU);
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
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
  EXPECT_GE(forward, 0.040);
  EXPECT_GE(backward, 0.040);
  double sum = 0;
  for (const double seconds : totals) sum += seconds;
  EXPECT_DOUBLE_EQ(sum, forward + backward);
}

}  // namespace
}  // namespace dtrain::train
