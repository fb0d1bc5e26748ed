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

TEST(SpeedReportTest, CountsOneBatchInTheSingular) {
  SpeedReport report;
  report.batch_size = 4;
  report.timing.rest = 1;
  report.latencies = {0.5};
  EXPECT_NE(speed_report(report).find(" of 1 batch of 4 "), std::string::npos)
      << speed_report(report);
  report.latencies.push_back(0.5);
  EXPECT_NE(speed_report(report).find(" of 2 batches of 4 "), std::string::npos)
      << speed_report(report);
}

}  // namespace
}  // namespace dtrain::cli
