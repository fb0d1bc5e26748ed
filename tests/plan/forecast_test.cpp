#include "plan/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace dtrain::plan {
namespace {

MeasuredBatch batch(int64_t samples, double forward, double backward) {
  return {.samples = samples,
          .data = 0.001,
          .forward = forward,
          .backward = backward,
          .load = 0.02,
          .optimizer = 0.004,
          .other = 0.0005,
          .memory = {.weights = 100,
                     .gradients = 100,
                     .moments = 200,
                     .activations = 10 * samples,
                     .batch = samples}};
}

MeasuredRun run_of(std::vector<MeasuredBatch> batches) {
  return {.source = "here",
          .network = "toy",
          .precision = "fp32",
          .device = "cpu",
          .data = "d.h5",
          .samples = 1000,
          .batches = std::move(batches),
          .buckets = {{1e6, 0.5}, {1e6, 1}}};
}

Assumptions assumptions(const char* interconnect) {
  const Interconnect links = parse_interconnect(interconnect, nullptr, false);
  return {.fabric = {.inside = links.inside,
                     .between = links.between,
                     .ranks_per_node = 1,
                     .library = Library::kMpi}};
}

// Waits of 0.1 and 2 ms are noise: beyond the sizes they grow in proportion, or by what loading
// takes longer.
TEST(AtSize, WaitsForDataDoNotGrowByNoise) {
  MeasuredBatch small = batch(8, 0.010, 0.020), large = batch(16, 0.020, 0.040);
  small.data = 0.0001;
  large.data = 0.002;
  MeasuredRun run = run_of({small, large});
  EXPECT_NEAR(at_size(run, 512).data, 0.064, 1e-12) << "32 times as many samples";
  run.batches[0].load = 0.1;
  run.batches[1].load = 0.2;  // longer than forward and backward: 6.4 s in place of 1.92
  EXPECT_NEAR(at_size(run, 512).data, 0.1198, 1e-9) << "the line";
  EXPECT_EQ(at_size(run, 1).data, 0);
}

constexpr int64_t kTen[] = {10};

TEST(AtSize, LiesOnTheLinesBetweenWhatWasMeasured) {
  const MeasuredRun run =
      run_of({batch(8, 0.010, 0.020), batch(16, 0.014, 0.030), batch(32, 0.030, 0.060)});
  EXPECT_DOUBLE_EQ(at_size(run, 16).forward, 0.014);
  EXPECT_NEAR(at_size(run, 12).backward, 0.025, 1e-12);
  EXPECT_NEAR(at_size(run, 24).forward, 0.022, 1e-12);
  EXPECT_NEAR(at_size(run, 4).forward, 0.008, 1e-12) << "on the line through the first two";
  EXPECT_NEAR(at_size(run_of({batch(8, 0.010, 0.020), batch(16, 0.014, 0.030)}), 32).forward, 0.022,
              1e-12);
  EXPECT_NEAR(at_size(run, 48).forward, 0.045, 1e-12) << "the line is above what is in proportion";
  EXPECT_EQ(at_size(run, 12).memory.activations, 120);
  EXPECT_EQ(at_size(run, 12).memory.weights, 100);
  EXPECT_EQ(at_size(run, 1).samples, 1);
  EXPECT_NEAR(at_size(run_of({batch(8, 0.008, 0.02), batch(16, 0.024, 0.03)}), 2).forward, 0.002,
              1e-12)
      << "the line is below zero";
  EXPECT_TRUE(was_measured(run, 8));
  EXPECT_FALSE(was_measured(run, 9));
}

TEST(AtSize, OneSizeIsTakenInProportion) {
  const MeasuredRun run = run_of({batch(8, 0.010, 0.020)});
  EXPECT_NEAR(at_size(run, 4).backward, 0.010, 1e-12);
  EXPECT_NEAR(at_size(run, 16).backward, 0.040, 1e-12);
  EXPECT_DOUBLE_EQ(at_size(run, 16).optimizer, 0.004) << "once per step";
  EXPECT_EQ(at_size(run, 16).memory.activations, 160);
  EXPECT_EQ(at_size(run, 16).memory.moments, 200);
}

TEST(Forecast, OneRankIsWhatWasMeasured) {
  const StepForecast step =
      forecast_step(run_of({batch(10, 0.01, 0.02)}), assumptions("5,1"), 1, kTen);
  EXPECT_NEAR(step.total(), 0.001 + 0.01 + 0.02 + 0.004 + 0.0005, 1e-12);
  EXPECT_EQ(step.communication(), 0);
}

TEST(Forecast, MicroStepsAddUpAndGradientsTravelOnce) {
  const MeasuredRun run = run_of({batch(10, 0.01, 0.02)});
  const std::vector<int64_t> three = {10, 10, 10};
  const StepForecast one = forecast_step(run, assumptions("5,1"), 2, kTen);
  const StepForecast step = forecast_step(run, assumptions("5,1"), 2, three);
  EXPECT_NEAR(step.forward, 0.03, 1e-12);
  EXPECT_NEAR(step.backward, 0.06, 1e-12);
  EXPECT_NEAR(step.optimizer, 0.004, 1e-12);
  EXPECT_DOUBLE_EQ(step.exposed, one.exposed);
  // 1 MB at 1 GB/s with 2 messages of 5 µs.
  EXPECT_NEAR(one.exposed, 1e-3 + 10e-6, 1e-9)
      << "the bucket that is ready at the end; the other one is hidden";
  EXPECT_NEAR(one.hidden, 0.5, 1e-9);
}

TEST(Forecast, WithoutOverlapAllIsExposed) {
  Assumptions after = assumptions("5,1");
  after.overlaps = false;
  const StepForecast step = forecast_step(run_of({batch(10, 0.01, 0.02)}), after, 2, kTen);
  EXPECT_DOUBLE_EQ(step.exposed, step.wire);
  EXPECT_NEAR(step.hidden, 0, 1e-12);
}

TEST(Forecast, BatchNormSumsAreWaitedForInEveryMicroStep) {
  MeasuredRun run = run_of({batch(10, 0.01, 0.02)});
  run.statistics = {520, 512};
  const std::vector<int64_t> two = {10, 10};
  const StepForecast step = forecast_step(run, assumptions("5,1"), 2, two);
  EXPECT_NEAR(step.statistics, 2 * (2 * 10e-6 + 1032e-9), 1e-9);
}

TEST(Forecast, AFasterDeviceWaitsForTheLoader) {
  const MeasuredRun run = run_of({batch(10, 0.01, 0.02)});
  Assumptions fast = assumptions("5,1");
  fast.speed = 10;
  const StepForecast step = forecast_step(run, fast, 1, kTen);
  EXPECT_NEAR(step.forward, 0.001, 1e-12);
  EXPECT_NEAR(step.data + step.forward + step.backward, 0.02, 1e-12)
      << "the loader needs that long";
  fast.speed = 1.2;
  EXPECT_NEAR(forecast_step(run, fast, 1, kTen).data, 0.001, 1e-12) << "it is fast enough";
}

TEST(Forecast, RanksThatAreLateByChanceCostMoreTheMoreTheyAre) {
  MeasuredRun run = run_of({batch(10, 0.01, 0.02)});
  run.batches[0].deviation = 0.001;
  const double of_2 = forecast_step(run, assumptions("5,1"), 2, kTen).late;
  const double of_512 = forecast_step(run, assumptions("5,1"), 512, kTen).late;
  EXPECT_NEAR(of_2, 0.001 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(of_512, 0.00304, 2e-5);
  const std::vector<int64_t> four = {10, 10, 10, 10};
  EXPECT_NEAR(forecast_step(run, assumptions("5,1"), 2, four).late, 2 * of_2, 1e-9)
      << "deviations partly cancel";
}

TEST(ExpectedLargest, IsTheMeanOfTheLargestOfNormalValues) {
  EXPECT_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 1 / std::sqrt(std::numbers::pi), 1e-5);
  EXPECT_NEAR(expected_largest(3), 1.5 / std::sqrt(std::numbers::pi), 1e-5);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  double sum = 0;
  constexpr int kRounds = 20000, kCount = 64;
  for (int i = 0; i < kRounds; ++i) {
    double largest = -10;
    for (int k = 0; k < kCount; ++k) largest = std::max(largest, normal(random));
    sum += largest;
  }
  EXPECT_NEAR(expected_largest(kCount), sum / kRounds, 0.02);
  EXPECT_NEAR(expected_largest(100'000), 4.39, 0.02);
}

}  // namespace
}  // namespace dtrain::plan
