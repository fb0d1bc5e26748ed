#include "dist/clock_offsets.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

#include "core/clock.h"
#include "support/thread_world.h"

namespace dtrain::dist {
namespace {

// Barriers of two ranks of which the second one's clock is ahead by `offset`: rank 0 enters at the
// first time and leaves at the second one, the other likewise, all on rank 0's clock.
struct True {
  double entered, left, other_entered, other_left;
};

ClockOffset offset_of_true(const std::vector<True>& barriers, double offset) {
  std::vector<BarrierTimes> rank0, other;
  for (const True& t : barriers) {
    rank0.push_back({t.entered, t.left});
    other.push_back({t.other_entered + offset, t.other_left + offset});
  }
  return offset_of(rank0, other);
}

TEST(OffsetOf, IsExactWhereBothGoTogether) {
  const ClockOffset offset = offset_of_true({{10, 10.001, 10, 10.001}}, -120);
  EXPECT_NEAR(offset.seconds, -120, 1e-9);
  EXPECT_NEAR(offset.error, 0.001, 1e-9);
}

TEST(OffsetOf, ContainsTheTruthHoweverLateARankIs) {
  const std::vector<True> barriers = {
      {1.0, 1.500, 1.499, 1.700},  // the other came late, and left late because it had no core
      {2.0, 2.300, 2.000, 2.002},  // rank 0 left late
      {3.0, 3.400, 3.399, 3.400},  // the other was awaited
      {4.2, 4.201, 4.000, 4.500},  // rank 0 was awaited
  };
  for (const double truth : {5.0, -0.25, 0.0, 1e6}) {
    const ClockOffset offset = offset_of_true(barriers, truth);
    EXPECT_LE(std::abs(offset.seconds - truth), offset.error + 1e-9) << truth;
    EXPECT_LT(offset.error, 0.002)
        << "the first or third trial bounds it from below, the second from above";
  }
}

TEST(OffsetOf, AClockThatWasSetIsUncertain) {
  const std::vector<BarrierTimes> rank0 = {{1, 1.001}, {2, 2.001}};
  const std::vector<BarrierTimes> other = {{1, 1.001}, {7, 7.001}};
  EXPECT_GT(offset_of(rank0, other).error, 2);
}

TEST(ClockOffsets, OfEveryRankOnEveryRank) {
  std::mutex mutex;
  std::vector<std::vector<ClockOffset>> seen;
  run_thread_world(3, [&](Communicator& host) {
    const double ahead = host.rank() == 1 ? 5.0 : host.rank() == 2 ? -120.0 : 0.0;
    const std::vector<ClockOffset> offsets =
        clock_offsets(host, [&] { return unix_seconds() + ahead; });
    const std::lock_guard lock(mutex);
    seen.push_back(offsets);
  });
  ASSERT_EQ(seen.size(), 3u);
  for (const std::vector<ClockOffset>& offsets : seen) {
    ASSERT_EQ(offsets.size(), 3u);
    EXPECT_EQ(offsets[0].seconds, 0);
    EXPECT_EQ(offsets[0].error, 0);
    // These clocks are one: the error is a bound.
    EXPECT_LE(std::abs(offsets[1].seconds - 5), offsets[1].error + 1e-6);
    EXPECT_LE(std::abs(offsets[2].seconds + 120), offsets[2].error + 1e-6);
    EXPECT_LT(offsets[1].error, 0.5);
  }
}

}  // namespace
}  // namespace dtrain::dist
