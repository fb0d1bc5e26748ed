#include "doctor/clock_offsets.h"

#include <gtest/gtest.h>

#include <mutex>

#include "support/thread_world.h"

namespace dtrain::doctor {
namespace {

TEST(OffsetOf, OutliersDoNotCount) {
  const std::vector<double> differences = {2.0, 2.01, 1.99, 2.0, 9.0, 2.0, 2.0, -3.0, 2.0};
  const ClockOffset offset = offset_of(differences);
  EXPECT_DOUBLE_EQ(offset.seconds, 2.0);
  EXPECT_LT(offset.spread, 0.02);
}

struct ShiftedClock : Clock {
  explicit ShiftedClock(double seconds)
      : shift(std::chrono::duration_cast<Wall::duration>(std::chrono::duration<double>(seconds))) {}
  Wall::time_point wall() const override { return Wall::now() + shift; }
  Wall::duration shift;
};

TEST(ClockOffsets, OfEveryRankOnEveryRank) {
  std::mutex mutex;
  std::vector<std::vector<ClockOffset>> seen;
  dist::run_thread_world(3, [&](dist::Communicator& host) {
    const ShiftedClock clock(host.rank() == 1 ? 5.0 : host.rank() == 2 ? -120.0 : 0.0);
    const std::vector<ClockOffset> offsets = clock_offsets(host, clock);
    const std::lock_guard lock(mutex);
    seen.push_back(offsets);
  });
  ASSERT_EQ(seen.size(), 3u);
  for (const std::vector<ClockOffset>& offsets : seen) {
    ASSERT_EQ(offsets.size(), 3u);
    EXPECT_EQ(offsets[0].seconds, 0);
    EXPECT_NEAR(offsets[1].seconds, 5, 0.5);
    EXPECT_NEAR(offsets[2].seconds, -120, 0.5);
    EXPECT_LT(offsets[1].spread, 0.5);
  }
}

}  // namespace
}  // namespace dtrain::doctor
