#include "data/loader/checksum_budget.h"

#include <gtest/gtest.h>

namespace dtrain::data {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = ChecksumBudget::Clock;

TEST(ChecksumBudget, AllowsOnePercentOfTheTimeAndSomeAtTheStart) {
  const Clock::time_point start = Clock::now();
  ChecksumBudget budget(start);
  EXPECT_TRUE(budget.allows(start)) << "the first sample, whatever it costs";
  budget.spend(milliseconds(19));
  EXPECT_TRUE(budget.allows(start));
  budget.spend(milliseconds(1));
  EXPECT_FALSE(budget.allows(start));
  EXPECT_TRUE(budget.allows(start + milliseconds(1)));
  budget.spend(milliseconds(10));
  EXPECT_FALSE(budget.allows(start + milliseconds(1000)));
  EXPECT_TRUE(budget.allows(start + milliseconds(1001)));
}

// A reader that loads without a pause: 180 us for a sample, and 20 us for its checksum.
TEST(ChecksumBudget, CostsABusyReaderAtMostOnePercent) {
  const Clock::time_point start = Clock::now();
  ChecksumBudget budget(start);
  Clock::time_point now = start;
  Clock::duration compared = {};
  while (now < start + seconds(100)) {
    now += microseconds(180);
    if (!budget.allows(now)) continue;
    budget.spend(microseconds(20));
    compared += microseconds(20);
    now += microseconds(20);
  }
  EXPECT_GE(compared, seconds(1)) << "the budget is used";
  EXPECT_LE(compared, seconds(1) + milliseconds(21));
}

}  // namespace
}  // namespace dtrain::data
