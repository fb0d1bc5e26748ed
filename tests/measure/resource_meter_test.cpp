#include "measure/resource_meter.h"

#include <gtest/gtest.h>

namespace dtrain::measure {
namespace {

TEST(ResourceMeter, DividesSamplesByHowManyReadersLoadedThem) {
  ResourceMeter meter(2);
  const data::LoaderStats before = {.samples = 10, .read_seconds = 1, .few_samples = 2};
  meter.sample(before);
  data::LoaderStats now = before;
  now.samples += 12;
  now.bytes += 600;
  now.read_seconds += 2;
  now.decode_seconds += 1;
  now.few_samples += 4;
  now.few_seconds += 0.5;
  now.wait_seconds += 0.25;
  const Values values = meter.sample(now).values;
  EXPECT_EQ(values[Quantity::kSamples], 12) << "since the last call";
  EXPECT_EQ(values[Quantity::kSampleBytes], 600);
  EXPECT_EQ(values[Quantity::kFewSamples], 4);
  EXPECT_EQ(values[Quantity::kManySamples], 8);
  EXPECT_EQ(values[Quantity::kFewSeconds], 0.5);
  EXPECT_EQ(values[Quantity::kManySeconds], 2.5);
  EXPECT_EQ(values[Quantity::kFewSampleSeconds], 0.125);
  EXPECT_EQ(values[Quantity::kManySampleSeconds], 0.3125);
  EXPECT_EQ(values[Quantity::kLoaderWait], 0.25);
  const Values idle = meter.sample(now).values;
  EXPECT_EQ(idle[Quantity::kSamples], 0);
  EXPECT_FALSE(idle.knows(Quantity::kFewSampleSeconds)) << "no sample, no time of one";
  EXPECT_FALSE(idle.knows(Quantity::kManySampleSeconds));
}

TEST(ResourceMeter, MeasuresItsProcess) {
  ResourceMeter meter(3);
  const RankSample sample = meter.sample({});
  EXPECT_GE(sample.seconds, 0);
  EXPECT_EQ(sample.values[Quantity::kCores], 3);
  EXPECT_GE(sample.values[Quantity::kThreads], 1);
  EXPECT_GT(sample.values[Quantity::kResident], 0);
  EXPECT_NE(sample.allowed_cores, CoreMask{});
  EXPECT_FALSE(sample.values.knows(Quantity::kLinkWidth)) << "no GPU";
}

}  // namespace
}  // namespace dtrain::measure
