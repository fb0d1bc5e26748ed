// The pure parts of `dtrain bench`: which sizes, threads and batches it measures, and how
// it searches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "job/comm_bench.h"
#include "job/data_bench.h"
#include "job/emulation.h"
#include "job/plan_inputs.h"
#include "job/step_probe.h"

namespace dtrain::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SizesBetween, AreMultiplesAndEndWithTheLargest) {
  EXPECT_THAT(sizes_between(4, 64, 4), ElementsAre(4, 16, 64));
  EXPECT_THAT(sizes_between(4, 100, 4), ElementsAre(4, 16, 64, 100));
  EXPECT_THAT(sizes_between(8, 8, 2), ElementsAre(8));
  const std::vector<int64_t> usual = sizes_between(4, int64_t{128} << 20, 4);
  EXPECT_EQ(usual.size(), 14u);
  EXPECT_EQ(usual.back(), int64_t{128} << 20);
  EXPECT_EQ(usual[usual.size() - 2], int64_t{64} << 20);
  EXPECT_THAT(sizes_between(1, (int64_t{1} << 62) + 1, int64_t{1} << 40),
              ElementsAre(1, int64_t{1} << 40, (int64_t{1} << 62) + 1))
      << "no size overflows";
}

TEST(ThreadsToCompare, ArePowersOfTwoAllCoresAndThoseOfTheRun) {
  EXPECT_THAT(threads_to_compare(1, 1), ElementsAre(1));
  EXPECT_THAT(threads_to_compare(2, 1), ElementsAre(1, 2));
  EXPECT_THAT(threads_to_compare(6, 3), ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(threads_to_compare(8, 12), ElementsAre(1, 2, 4, 8, 12));
}

TEST(BatchSizesAround, AreQuarterToFourTimesEachOnce) {
  EXPECT_THAT(batch_sizes_around(32, 1000), ElementsAre(8, 16, 32, 64, 128));
  EXPECT_THAT(batch_sizes_around(2, 1000), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(batch_sizes_around(32, 50), ElementsAre(8, 16, 32, 50))
      << "no more samples than there are";
  EXPECT_THAT(batch_sizes_around(1, 1), ElementsAre(1));
}

TEST(LargestPassing, FindsItFromAnyStart) {
  for (int limit = 1; limit <= 12; ++limit) {
    for (int most = 0; most <= limit; ++most) {
      for (int start = 1; start <= limit + 2; ++start) {
        int calls = 0;
        const int found = largest_passing(start, limit, [&](int count) {
          EXPECT_GE(count, 1);
          EXPECT_LE(count, limit);
          ++calls;
          return count <= most;
        });
        EXPECT_EQ(found, most) << "of " << limit << " from " << start;
        EXPECT_LE(calls, 8) << "of " << limit << " from " << start << " to " << most;
      }
    }
  }
  int calls = 0;
  EXPECT_EQ(largest_passing(40, 1'000'000, [&](int count) { return ++calls, count <= 41; }), 41);
  EXPECT_LE(calls, 4) << "a good guess is cheap";
}

TEST(Accelerators, AreThoseOfMlperfStorage) {
  const Accelerator& h100 = accelerator_named("resnet50-h100");
  EXPECT_EQ(h100.batch_size, 400);
  EXPECT_EQ(h100.compute_seconds, 0.224);
  EXPECT_NEAR(h100.samples_per_second(), 1785.7, 0.1);
  EXPECT_EQ(accelerator_named("cosmoflow-a100").least_utilization, 0.7);
  try {
    accelerator_named("resnet50-h200");
    ADD_FAILURE() << "an unknown accelerator was found";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'resnet50-h100'"));
    EXPECT_THAT(error.what(), HasSubstr("unet3d-a100"));
  }
}

train::MeasuredSteps steps_of(int64_t steps, int64_t samples, double seconds) {
  return {.steps = steps, .samples = samples, .seconds = seconds};
}

TEST(StepProbe, TheSlowestRankDecides) {
  StepProbe probe;
  probe.ranks = {steps_of(10, 320, 1), steps_of(10, 320, 2)};
  EXPECT_DOUBLE_EQ(probe.step_seconds(), 0.2);
  EXPECT_DOUBLE_EQ(probe.samples_per_second(), 160);
  EXPECT_TRUE(std::isnan(probe.launch_gap_seconds())) << "no GPU clock";
  probe.kernel_seconds = 0.15;
  EXPECT_NEAR(probe.launch_gap_seconds(), 0.05, 1e-12);
  probe.kernel_seconds = 0.21;
  EXPECT_EQ(probe.launch_gap_seconds(), 0);
}

TEST(SlowestOf, IsUnknownWhereOneRankDoesNotKnow) {
  EXPECT_EQ(slowest_of(std::vector<double>{0.1, 0.3, 0.2}), 0.3);
  EXPECT_TRUE(std::isnan(slowest_of(std::vector<double>{0.1, StepProbe::kUnknown, 0.2})));
  EXPECT_TRUE(std::isnan(slowest_of(std::vector<double>{StepProbe::kUnknown, 0.1})));
  EXPECT_TRUE(std::isnan(slowest_of({})));
}

// A step with short samples takes less time, which says nothing about other steps.
TEST(StepProbe, TheRateIsOfSamplesOfTheMeanLength) {
  StepProbe probe;
  probe.mean_rows = 100;
  probe.ranks = {steps_of(10, 320, 1), steps_of(10, 320, 2)};
  EXPECT_DOUBLE_EQ(probe.samples_per_second(), 160) << "the batches are not padded";
  probe.ranks[0].padded = {.rows = 9000, .cells = 10000};
  probe.ranks[1].padded = {.rows = 7000, .cells = 7500};
  EXPECT_DOUBLE_EQ(probe.length_ratio(), 0.5);
  EXPECT_DOUBLE_EQ(probe.samples_per_second(), 80);
  EXPECT_DOUBLE_EQ(probe.step_seconds(), 0.2) << "as it was measured";
  probe.mean_rows = StepProbe::kUnknown;
  EXPECT_DOUBLE_EQ(probe.samples_per_second(), 160);
}

TEST(MeasuredBatch, IsOfOneMicroStepOnOneRank) {
  StepProbe probe;
  probe.batch_size = 16;
  probe.accumulate = 2;
  for (const double seconds : {1.0, 3.0}) {
    train::MeasuredSteps rank = steps_of(10, 320, 60);
    rank.phase_seconds[static_cast<size_t>(measure::Phase::kForward)] = 10 * seconds;
    rank.phase_seconds[static_cast<size_t>(measure::Phase::kOptimizer)] = 5;
    rank.phase_seconds[static_cast<size_t>(measure::Phase::kAllReduceWait)] = 20;
    rank.loader = {.samples = 100, .read_seconds = 2, .decode_seconds = 5, .augment_seconds = 3};
    rank.own_deviation = 0.2;
    probe.ranks.push_back(rank);
  }
  const plan::MeasuredBatch batch = measured_batch(probe, /*threads=*/2);
  EXPECT_EQ(batch.samples, 16);
  EXPECT_DOUBLE_EQ(batch.forward, 1) << "2 s a step on average, for two micro-steps";
  EXPECT_DOUBLE_EQ(batch.optimizer, 0.5);
  EXPECT_DOUBLE_EQ(batch.other, 6 - 2 - 0.5 - 2) << "waiting for other ranks is no time of its own";
  EXPECT_DOUBLE_EQ(batch.load, 0.1 * 16 / 2);
  EXPECT_NEAR(batch.deviation, 0.2 / std::sqrt(2.0), 1e-12);
  EXPECT_DOUBLE_EQ(batch.step, 6);
}

TEST(Thinned, KeepsTheEnds) {
  const std::vector<int64_t> sizes = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(thinned(sizes, 3), ElementsAre(1, 4, 7));
  EXPECT_THAT(thinned(sizes, 2), ElementsAre(1, 7));
  EXPECT_THAT(thinned(sizes, 7), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(thinned(sizes, 9), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(BestRate, IsTheFastestWarmLoader) {
  const auto rate = [](int threads, bool cold, double samples) {
    return LoadingRate{
        .threads = threads, .cold = cold, .samples_per_second = spread_of({samples})};
  };
  DataBench bench;
  bench.rates = {rate(0, false, 900), rate(1, true, 500), rate(1, false, 100), rate(2, false, 180),
                 rate(4, false, 170)};
  EXPECT_EQ(best_rate(bench).threads, 2);
  EXPECT_FALSE(bench.has_cold()) << "unknown";
  bench.kept = 0.01;
  EXPECT_TRUE(bench.has_cold());
  bench.kept = 1;
  EXPECT_FALSE(bench.has_cold());
}

TEST(WrongValues, AreFoundInAnyOperation) {
  CommunicatorCost cost{.name = "gradients", .implementation = "nccl", .device = "cuda:0"};
  cost.operations.push_back(
      {.operation = dist::Collective::kAllReduce, .sizes = {{.bytes = 4}, {.bytes = 16}}});
  EXPECT_FALSE(has_wrong_values({cost}));
  cost.operations[0].sizes[1].wrong = 1;
  EXPECT_TRUE(has_wrong_values({cost}));
  EXPECT_FALSE(has_wrong_values({}));
}

}  // namespace
}  // namespace dtrain::job
