#include "trace/memory_peak.h"

#include <gtest/gtest.h>

namespace dtrain::trace {
namespace {

const std::vector<MemoryChange> kChanges = {
    {10, 0xa, 100, 0},  // forward: two operators keep what they make
    {11, 0xb, 50, 1},    {12, 0xc, 30, 1}, {13, 0xb, -50, -1},  // 130
    {14, 0xd, 20, 0},                                           // 150 at the end of forward
    {20, 0xe, 40, 2},                                           // backward: 190
    {21, 0xa, -100, -1}, {22, 0xf, 5, 2},                       // 95
    {23, 0xb, 7, 2},                                            // the address is used again: 102
    {40, 0x9, 1000, 3},                                         // outside of both
};

TEST(MemoryPeak, NamesWhoHoldsItInEachPass) {
  const MemoryPeak forward = peak_within(kChanges, std::vector<TimeRange>{{10, 15}});
  EXPECT_EQ(forward.bytes, 180);
  ASSERT_EQ(forward.held.size(), 2u);
  EXPECT_EQ(forward.held[0].owner, 0);
  EXPECT_EQ(forward.held[0].bytes, 100);
  EXPECT_EQ(forward.held[1].owner, 1);
  EXPECT_EQ(forward.held[1].bytes, 80);
  EXPECT_EQ(forward.held[1].tensors, 2);

  const MemoryPeak backward = peak_within(kChanges, std::vector<TimeRange>{{15, 30}});
  EXPECT_EQ(backward.bytes, 190);
  ASSERT_EQ(backward.held.size(), 3u);
  EXPECT_EQ(backward.held[0].owner, 0);
  EXPECT_EQ(backward.held[0].bytes, 120);
  EXPECT_EQ(backward.held[0].tensors, 2);
}

TEST(MemoryPeak, CountsWhatIsHeldWhenAnIntervalBegins) {
  const MemoryPeak quiet = peak_within(kChanges, std::vector<TimeRange>{{16, 18}});
  EXPECT_EQ(quiet.bytes, 150) << "nothing changes in it";
  const MemoryPeak falling = peak_within(kChanges, std::vector<TimeRange>{{21, 30}});
  EXPECT_EQ(falling.bytes, 190) << "it only falls";
}

TEST(MemoryPeak, TakesTheLargestOfSeveralIntervals) {
  const MemoryPeak both =
      peak_within(kChanges, std::vector<TimeRange>{{10, 11}, {13, 14}, {22, 23}});
  EXPECT_EQ(both.bytes, 180) << "what is held when the second one begins";
  int64_t sum = 0;
  for (const HeldBy& held : both.held) sum += held.bytes;
  EXPECT_EQ(sum, both.bytes);
}

TEST(MemoryPeak, OfNothingIsNothing) {
  EXPECT_EQ(peak_within({}, std::vector<TimeRange>{{0, 100}}).bytes, 0);
  EXPECT_EQ(peak_within(kChanges, {}).bytes, 0);
  EXPECT_TRUE(peak_within(kChanges, std::vector<TimeRange>{{0, 5}}).held.empty());
}

}  // namespace
}  // namespace dtrain::trace
