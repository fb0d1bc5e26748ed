// How windows become one value per step, by the kind of the quantity.

#include "measure/rank_sample.h"

#include <gtest/gtest.h>

namespace dtrain::measure {
namespace {

RankSample window(double steps, Values values, double seconds = 1) {
  return {.seconds = seconds, .steps = steps, .values = values};
}

TEST(Total, ASumIsDividedByTheStepsInWhichItWasMeasured) {
  Total total;
  EXPECT_FALSE(total.per_step().knows(Quantity::kCpu)) << "no window";
  total.add(window(10, {{Quantity::kCpu, 2}}));
  total.add(window(30, {{Quantity::kCpu, 6}}));
  total.add(window(5, {}));
  EXPECT_DOUBLE_EQ(total.per_step()[Quantity::kCpu], 8.0 / 40);
  EXPECT_EQ(total.sum(Quantity::kCpu), 8);
  EXPECT_FALSE(total.per_step().knows(Quantity::kRunDelay)) << "never measured";
}

TEST(Total, ARateIsMultipliedByTheSecondsOfAStep) {
  Total total;
  total.add(window(10, {{Quantity::kGpuEnergy, 300}}, 0.2));
  total.add(window(10, {}, 7));
  EXPECT_DOUBLE_EQ(total.per_step()[Quantity::kGpuEnergy], 300 * 0.02) << "300 W, steps of 20 ms";
}

TEST(Total, AMeanIsWeightedByItsQuantityOrBySteps) {
  Total total;
  total.add(window(
      1, {{Quantity::kGpuSeconds, 4}, {Quantity::kGpuUtilization, 0.5}, {Quantity::kQueue, 0.25}}));
  total.add(window(
      3, {{Quantity::kGpuSeconds, 1}, {Quantity::kGpuUtilization, 1}, {Quantity::kQueue, 0.75}}));
  total.add(window(9, {{Quantity::kGpuSeconds, 0}}));
  EXPECT_DOUBLE_EQ(total.per_step()[Quantity::kGpuUtilization], 3.0 / 5);
  EXPECT_DOUBLE_EQ(total.per_step()[Quantity::kQueue], 0.625);
  Total of_records;  // they do not have the weight
  of_records.add(window(1, {{Quantity::kGpuUtilization, 0}}));
  of_records.add(window(3, {{Quantity::kGpuUtilization, 1}}));
  EXPECT_DOUBLE_EQ(of_records.per_step()[Quantity::kGpuUtilization], 0.75);
}

TEST(Total, TheHighestAndTheLastAreKept) {
  Total total;
  total.add(window(1, {{Quantity::kGpuTemperature, 80}, {Quantity::kFreeMemory, 80}}));
  total.add(window(1, {{Quantity::kGpuTemperature, 60}, {Quantity::kFreeMemory, 60}}));
  total.add(window(1, {}));
  EXPECT_EQ(total.per_step()[Quantity::kGpuTemperature], 80);
  EXPECT_EQ(total.per_step()[Quantity::kFreeMemory], 60);
}

TEST(Total, WhatCountsUpGrowsFromTheEndOfTheFirstWindow) {
  Total total;
  total.add(window(10, {{Quantity::kSkippedSteps, 7}}));
  EXPECT_FALSE(total.per_step().knows(Quantity::kSkippedSteps)) << "it may be of the warm-up";
  total.add(window(20, {{Quantity::kSkippedSteps, 9}}));
  EXPECT_DOUBLE_EQ(total.per_step()[Quantity::kSkippedSteps], 2.0 / 20);
  Total later = Total::after(total);
  later.add(window(5, {{Quantity::kSkippedSteps, 10}}));
  EXPECT_DOUBLE_EQ(later.per_step()[Quantity::kSkippedSteps], 1.0 / 5);
}

TEST(Total, OfMeansIsThatOfTheirWindows) {
  const RankSample first = window(10, {{Quantity::kCpu, 2}, {Quantity::kCores, 4}}),
                   second = window(30, {{Quantity::kCpu, 6}, {Quantity::kCores, 2}});
  Total windows, means;
  for (const RankSample& sample : {first, second}) {
    windows.add(sample);
    means.add(sample_of(per_step(sample), sample.steps));
  }
  for (const Quantity quantity : {Quantity::kCpu, Quantity::kCores})
    EXPECT_DOUBLE_EQ(means.per_step()[quantity], windows.per_step()[quantity]);
}

TEST(Values, TakeWhatTheOthersKnow) {
  Values values = {{Quantity::kCpu, 1}, {Quantity::kCores, 2}};
  values.set({{Quantity::kCpu, 3}, {Quantity::kThreads, 4}});
  EXPECT_EQ(values[Quantity::kCpu], 3);
  EXPECT_EQ(values[Quantity::kCores], 2);
  EXPECT_EQ(values[Quantity::kThreads], 4);
  EXPECT_EQ(values.or_zero(Quantity::kRunDelay), 0);
}

}  // namespace
}  // namespace dtrain::measure
