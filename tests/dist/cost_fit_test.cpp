#include "dist/cost_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

namespace dtrain::dist {
namespace {

constexpr double kLatency = 20e-6, kPerByte = 0.25e-9;  // 20 us and 4 GB/s

// 4 B to 128 MiB, `repetitions` of each size.
std::vector<CostSample> samples_of(double latency, double per_byte, int repetitions = 1) {
  std::vector<CostSample> samples;
  for (int i = 0; i < repetitions; ++i) {
    for (double bytes = 4; bytes <= 128 << 20; bytes *= 2)
      samples.push_back({bytes, latency + bytes * per_byte});
  }
  return samples;
}

// In [0, 1), by index.
double drawn(size_t i, uint64_t stream) {
  return static_cast<double>(keyed(stream, i) >> 11) * 0x1p-53;
}

TEST(CostFit, FindsWhatTheSamplesWereMadeOf) {
  const CostFit fit = fit_cost(samples_of(kLatency, kPerByte));
  EXPECT_NEAR(fit.latency, kLatency, 1e-6 * kLatency);
  EXPECT_NEAR(fit.seconds_per_byte, kPerByte, 1e-6 * kPerByte);
  EXPECT_LT(fit.residual, 1e-6);
  EXPECT_NEAR(fit.seconds(1e6), kLatency + 1e6 * kPerByte, 1e-9);
}

TEST(CostFit, SmallAndLargeMessagesCountAlike) {
  // The large ones are a tenth off: in absolute errors they would decide the latency, and make it
  // a millisecond.
  std::vector<CostSample> samples = samples_of(kLatency, kPerByte);
  for (CostSample& sample : samples) {
    if (sample.bytes > 1 << 20) sample.seconds *= 1.1;
  }
  const CostFit fit = fit_cost(samples);
  EXPECT_NEAR(fit.latency, kLatency, 0.02 * kLatency);
  EXPECT_NEAR(fit.seconds_per_byte, kPerByte, 0.12 * kPerByte);
}

TEST(CostFit, NoiseOfBothSignsCancelsOut) {
  std::vector<CostSample> samples = samples_of(kLatency, kPerByte, 5);
  for (size_t i = 0; i < samples.size(); ++i) samples[i].seconds *= 0.9 + 0.2 * drawn(i, 1);
  const CostFit fit = fit_cost(samples);
  EXPECT_NEAR(fit.latency, kLatency, 0.03 * kLatency);
  EXPECT_NEAR(fit.seconds_per_byte, kPerByte, 0.03 * kPerByte);
  EXPECT_GT(fit.residual, 0.02);
  EXPECT_LT(fit.residual, 0.08) << "half of the noise is below 5 %";
}

TEST(CostFit, DelayedOperationsDoNotMoveIt) {
  std::vector<CostSample> samples = samples_of(kLatency, kPerByte, 4);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].seconds *= 0.97 + 0.06 * drawn(i, 2);
    if (drawn(i, 3) < 0.3) samples[i].seconds += 0.01 + samples[i].seconds * 20 * drawn(i, 4);
  }
  const CostFit fit = fit_cost(samples);
  EXPECT_NEAR(fit.latency, kLatency, 0.05 * kLatency);
  EXPECT_NEAR(fit.seconds_per_byte, kPerByte, 0.05 * kPerByte);
}

TEST(CostFit, NeitherPartIsNegative) {
  const CostFit no_latency =
      fit_cost(std::vector<CostSample>{{1e6, 0.9e-3}, {2e6, 2e-3}, {4e6, 4.2e-3}});
  EXPECT_EQ(no_latency.latency, 0);
  EXPECT_NEAR(no_latency.seconds_per_byte, 1e-9, 0.06e-9);
  const CostFit no_slope =
      fit_cost(std::vector<CostSample>{{4, 11e-6}, {400, 10e-6}, {4000, 9e-6}});
  EXPECT_EQ(no_slope.seconds_per_byte, 0);
  EXPECT_NEAR(no_slope.latency, 10e-6, 1e-6);
}

TEST(CostFit, OneSizeIsAllLatency) {
  const CostFit fit =
      fit_cost(std::vector<CostSample>{{64, 8e-6}, {64, 9e-6}, {64, 9e-6}, {64, 90e-6}});
  EXPECT_EQ(fit.seconds_per_byte, 0);
  EXPECT_NEAR(fit.latency, 9e-6, 0.6e-6);
  const CostFit barrier = fit_cost(std::vector<CostSample>{{0, 5e-6}});
  EXPECT_NEAR(barrier.latency, 5e-6, 1e-12);
}

TEST(CostFit, NothingMeasuredIsZero) {
  for (const CostFit& fit : {fit_cost({}), fit_cost(std::vector<CostSample>{{4, 0}, {8, -1}})}) {
    EXPECT_EQ(fit.latency, 0);
    EXPECT_EQ(fit.seconds_per_byte, 0);
    EXPECT_EQ(fit.seconds(1e9), 0);
  }
}

}  // namespace
}  // namespace dtrain::dist
