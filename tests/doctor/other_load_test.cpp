#include "doctor/other_load.h"

#include <gtest/gtest.h>

#include <vector>

namespace dtrain::doctor {
namespace {

Reading reading(double at, double busy, double steal, double own) {
  Reading reading;
  reading.machine.at = reading.process.at = at;
  reading.machine.busy_seconds = busy;
  reading.machine.steal_seconds = steal;
  reading.process.cpu_seconds = own;
  return reading;
}

TEST(OtherLoad, IsWhatTheRanksDoNotUse) {
  const Reading before = reading(10, 100, 3, 7), after = reading(12, 106, 4, 8);
  EXPECT_DOUBLE_EQ(own_cpu(before, after).value(), 0.5);
  EXPECT_DOUBLE_EQ(other_cpu(before, after, std::vector<double>{0.5, 0.25}).value(), 2.25);
  EXPECT_DOUBLE_EQ(other_cpu(before, after, std::vector<double>{9}).value(), 0)
      << "never below none";
  EXPECT_DOUBLE_EQ(stolen_cpu(before, after).value(), 0.5);
}

TEST(OtherLoad, WithoutCountersItIsUnknown) {
  EXPECT_FALSE(other_cpu({}, {}, {}));
  EXPECT_FALSE(stolen_cpu({}, {}));
  EXPECT_FALSE(own_cpu({}, {}));
  const Reading same = reading(1, 1, 1, 1);
  EXPECT_FALSE(other_cpu(same, same, {})) << "no time has passed";
}

}  // namespace
}  // namespace dtrain::doctor
