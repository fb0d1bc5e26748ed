#include "trace/chrome_trace.h"

#include <gtest/gtest.h>

namespace dtrain::trace {
namespace {

TEST(ClockMap, OfTheSameClockChangesNothing) {
  const ClockMap same;
  for (const Time time : {Time{0}, Time{1}, Time{123456789012345}})
    EXPECT_EQ(same.common(time), time);
}

TEST(ClockMap, TakesTheOffsetAway) {
  const ClockMap map{.before = 1000, .after = 2000, .offset_before = 5, .offset_after = 5};
  EXPECT_EQ(map.common(7'000'000'000), 2'000'000'000);
}

// A clock that runs 100 ppm fast, seen ten seconds apart: what is between is known to a nanosecond.
TEST(ClockMap, FollowsAClockThatDrifts) {
  const auto own = [](Time real) { return real + 3'000'000'000 + real / 10'000; };
  constexpr Time kBegin = 1'000'000'000, kEnd = 11'000'000'000;
  const ClockMap map{.before = own(kBegin),
                     .after = own(kEnd),
                     .offset_before = 1e-9 * static_cast<double>(own(kBegin) - kBegin),
                     .offset_after = 1e-9 * static_cast<double>(own(kEnd) - kEnd)};
  for (Time real = kBegin; real <= kEnd; real += 500'000'000) {
    EXPECT_NEAR(static_cast<double>(map.common(own(real))), static_cast<double>(real), 2) << real;
  }
}

}  // namespace
}  // namespace dtrain::trace
