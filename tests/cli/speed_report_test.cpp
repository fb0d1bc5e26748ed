#include "cli/speed_report.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dtrain::cli {
namespace {

TEST(PercentilesTest, AreNearestRanks) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1);  // 100 ... 1
  const Percentiles p = percentiles(values);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
}

TEST(PercentilesTest, OfFewValuesAreAmongThem) {
  const Percentiles one = percentiles({7});
  EXPECT_EQ(one.p50 + one.p90 + one.p99, 21);
  const Percentiles three = percentiles({3, 1, 2});
  EXPECT_EQ(three.p50, 2);
  EXPECT_EQ(three.p99, 3);
}

}  // namespace
}  // namespace dtrain::cli
