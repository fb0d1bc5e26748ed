#include "core/spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtrain {
namespace {

TEST(SpreadTest, HasTheMedianAndBothEnds) {
  const Spread odd = spread_of({5, 1, 9});
  EXPECT_EQ(odd.median, 5);
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.high, 9);
  EXPECT_EQ(odd.count, 3);
  EXPECT_EQ(odd.share(), 8.0 / 5);
  EXPECT_EQ(spread_of({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(spread_of({7}).share(), 0);
}

TEST(SpreadTest, LeavesOutWhatIsNotANumber) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(spread_of({kNone, 2, kNone, 4}).median, 3);
  EXPECT_EQ(spread_of({kNone, 2}).count, 1);
  EXPECT_TRUE(std::isnan(spread_of({}).median));
  EXPECT_TRUE(std::isnan(median_of({kNone})));
  EXPECT_EQ(median_of({1, 2, 10}), 2);
}

}  // namespace
}  // namespace dtrain
