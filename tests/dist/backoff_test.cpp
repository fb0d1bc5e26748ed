#include "dist/backoff.h"

#include <gtest/gtest.h>

#include "support/fake_clock.h"

namespace dtrain::dist {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;

// How long one wait() sleeps: the fake clock moves only by sleeping.
Clock::Steady::duration sleep_of(Backoff& backoff, const Clock& clock) {
  const auto before = clock.now();
  backoff.wait();
  return clock.now() - before;
}

TEST(Backoff, YieldsFirstAndThenSleepsLongerAndLonger) {
  const FakeClock clock;
  Backoff backoff(clock);
  EXPECT_EQ(sleep_of(backoff, clock), 0ns);
  clock.advance(999us);
  EXPECT_EQ(sleep_of(backoff, clock), 0ns);
  clock.advance(1us);
  EXPECT_EQ(sleep_of(backoff, clock), 31'250ns);
  clock.advance(14ms);
  const auto later = sleep_of(backoff, clock);
  EXPECT_GT(later, 400us);
  EXPECT_LT(later, 1ms);
}

TEST(Backoff, NeverSleepsLongerThanAMillisecond) {
  const FakeClock clock;
  Backoff backoff(clock);
  clock.advance(1h);
  EXPECT_EQ(sleep_of(backoff, clock), 1ms);
}

TEST(Backoff, ProgressMakesTheNextWaitsShortAgain) {
  const FakeClock clock;
  Backoff backoff(clock);
  clock.advance(1s);
  ASSERT_EQ(sleep_of(backoff, clock), 1ms);
  backoff.progressed();
  EXPECT_EQ(sleep_of(backoff, clock), 0ns);
}

}  // namespace
}  // namespace dtrain::dist
