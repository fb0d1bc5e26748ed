#include "plan/overlap.h"

#include <gtest/gtest.h>

#include <vector>

namespace dtrain::plan {
namespace {

// A wire on which N bytes take N seconds.
double as_bytes(double bytes) { return bytes; }

Overlap play(const std::vector<TimedBucket>& buckets, double backward, double contention = 0) {
  return overlap(buckets, backward, contention, as_bytes);
}

TEST(Overlap, TheLastBucketIsNeverHidden) {
  const Overlap one = play({{.bytes = 3, .ready = 1}}, 10);
  EXPECT_DOUBLE_EQ(one.backward, 10);
  EXPECT_DOUBLE_EQ(one.exposed, 3);
  EXPECT_DOUBLE_EQ(one.hidden(), 0);
}

TEST(Overlap, EarlierBucketsTravelBehindBackward) {
  const Overlap result = play({{4, 0.2}, {4, 0.6}, {1, 1}}, 10);
  EXPECT_DOUBLE_EQ(result.wire, 9);
  EXPECT_DOUBLE_EQ(result.exposed, 1) << "at 2 and at 6 the wire was free; at 10 it is again";
  EXPECT_NEAR(result.hidden(), 8.0 / 9, 1e-12);
}

TEST(Overlap, BucketsWaitForTheWire) {
  // From 2 to 8, from 8 to 14, from 14 to 15.
  EXPECT_DOUBLE_EQ(play({{6, 0.2}, {6, 0.5}, {1, 1}}, 10).exposed, 5);
  EXPECT_DOUBLE_EQ(play({{30, 0}, {1, 1}}, 10).exposed, 21);
}

TEST(Overlap, ABusyWireSlowsBackward) {
  // At half speed from 0 to 4, in which 2 of the 10 seconds are done.
  const Overlap result = play({{4, 0}, {1, 1}}, 10, 0.5);
  EXPECT_DOUBLE_EQ(result.backward, 12);
  EXPECT_DOUBLE_EQ(result.exposed, 1);
  // Never without a wire that is busy.
  EXPECT_DOUBLE_EQ(overlap({}, 10, 0.5, as_bytes).backward, 10);
  // A wire that is busy throughout: twice the time.
  EXPECT_DOUBLE_EQ(play({{100, 0}}, 10, 0.5).backward, 20);
  EXPECT_DOUBLE_EQ(play({{100, 0}}, 10, 0.5).exposed, 80);
}

TEST(Overlap, WithoutOthersNothingIsExposed) {
  const Overlap result =
      overlap(std::vector<TimedBucket>{{100, 0.5}, {7, 1}}, 10, 0.3, [](double) { return 0.0; });
  EXPECT_EQ(result.exposed, 0);
  EXPECT_EQ(result.backward, 10);
  EXPECT_EQ(result.hidden(), 1);
}

}  // namespace
}  // namespace dtrain::plan
