// What a training knows of itself for its verdict, and when it judges.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>

#include "diagnose/verdict.h"
#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace dtrain::train {
namespace {

using measure::Quantity;
using measure::RunMeasurements;

// Called where the resources of a window have been read: the next window has more than the ticks of
// 10 ms in which some kernels count the time of the processor, which toy steps alone do not reach.
measure::Values work_some_ticks() {
  const std::clock_t until = std::clock() + 4 * CLOCKS_PER_SEC / 100;
  while (std::clock() < until) {
  }
  return {};
}

// The last step ends after the last report: what the sensors said until then is part of the
// verdict, too.
TEST(TrainerVerdict, EvidenceOfAGpuReachesToTheEnd) {
  Scenario setup{.config = small(4)};
  setup.config.train.epochs = 12;
  setup.take_gpu_use = [] {
    return measure::Values{{Quantity::kGpuSeconds, 1},
                           {Quantity::kFullSmClock, 1.8e9},
                           {Quantity::kPowerLimit, 200},
                           {Quantity::kDefaultPowerLimit, 350}};
  };
  const diagnose::RunEvidence evidence = run(setup)[0].result.evidence;
  const measure::Values& gpu = evidence.ranks.at(0).values;
  EXPECT_EQ(gpu[Quantity::kPowerLimit], 200);
  EXPECT_EQ(gpu[Quantity::kDefaultPowerLimit], 350);
  EXPECT_EQ(gpu[Quantity::kFullSmClock], 1.8e9);
  EXPECT_EQ(evidence.ranks[0].readers(), 1);
}

// What reads its samples is known of a run that logs only once, at its end, too.
TEST(TrainerVerdict, EvidenceOfARunThatSeldomLogsIsOfAllItsStepsAfterWarmUp) {
  for (const int steps : {12, 200}) {
    Scenario setup{.config = small(4)};
    setup.config.train.epochs = 12;
    setup.log_every = {.steps = steps};
    setup.take_gpu_use = work_some_ticks;
    const diagnose::RunEvidence evidence = run(setup)[0].result.evidence;
    ASSERT_EQ(evidence.ranks.size(), 1u);
    EXPECT_EQ(evidence.ranks[0].steps.size(), 36 - 1 - RunMeasurements::kWarmUpSteps);
    EXPECT_GT(evidence.ranks[0].service(), 0) << "logs every " << steps << " steps";
    EXPECT_GT(evidence.ranks[0].values[Quantity::kCpu], 0) << "logs every " << steps << " steps";
  }
}

TEST(TrainerVerdict, ComesWithTheFirstEnoughStepsAndThenEachMinute) {
  Scenario setup{.ranks = 2, .config = small(4)};
  setup.config.train.epochs = 12;
  // The next step ends the last
  constexpr int64_t kFirst = RunMeasurements::kWarmUpSteps + diagnose::kFewestSteps + 1;
  const std::vector<RankRun> runs = run(setup);
  EXPECT_EQ(runs[0].judged, std::vector<int64_t>{kFirst});
  EXPECT_TRUE(runs[1].judged.empty());
  setup.phase_time = std::chrono::seconds(61);
  std::vector<int64_t> each(36 - kFirst + 1);
  std::iota(each.begin(), each.end(), kFirst);
  EXPECT_EQ(run(setup)[0].judged, each);
}

TEST(TrainerVerdict, EvidenceOfARunThatIsStoppedBeforeItLogsHasAllParts) {
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 40};
  setup.config.train.epochs = 40;
  setup.log_every = {.steps = 1000};
  setup.take_gpu_use = work_some_ticks;
  const diagnose::RunEvidence evidence = run(setup)[0].result.evidence;
  ASSERT_EQ(evidence.ranks.size(), 1u);
  EXPECT_GE(evidence.ranks[0].steps.size(), 30u);
  EXPECT_GT(evidence.ranks[0].service(), 0);
  EXPECT_GT(evidence.ranks[0].values[Quantity::kCpu], 0);
}

// Steps that were not kept, and what follows the last step, which no next step ends.
TEST(TrainerVerdict, KnowsAllEvaluationsAndSavesOfTheRun) {
  const testing::TempDir folder;
  Scenario setup{.ranks = 2, .config = small(4), .folder = folder / "steps"};
  setup.config.run.name = "r";
  setup.config.train.epochs = 200;  // 600 steps
  setup.config.train.eval_every = {.steps = 90};
  setup.config.checkpoint.every = {.steps = 140};
  setup.config.checkpoint.keep_best = false;
  setup.log_every = {.steps = 1000};
  diagnose::RunEvidence evidence = run(setup)[0].result.evidence;
  EXPECT_EQ(evidence.ended_steps, 600);
  EXPECT_EQ(evidence.total_steps(), 600);
  EXPECT_EQ(evidence.evaluations.count, 7) << "the last one is at the end";
  EXPECT_GT(evidence.evaluations.seconds, 0);
  EXPECT_EQ(evidence.saves.count, 4) << "that at the end stays in any case";
  EXPECT_GT(evidence.saves.seconds, 0);
  EXPECT_EQ(evidence.saves_of_best.count, 0);
  setup.config.checkpoint = {.every = {}, .keep_best = true};
  setup.config.train.epochs = 10;
  setup.config.train.eval_every = {.epochs = 1};
  setup.folder = folder / "best";
  const RankRun best = run(setup)[0];
  evidence = best.result.evidence;
  EXPECT_GE(evidence.saves_of_best.count, 1);
  EXPECT_EQ(evidence.saves_of_best.count,
            static_cast<int64_t>(best.saved.size()) - (best.saved.back() == 30 ? 1 : 0));
  EXPECT_EQ(evidence.saves.count, 0);
}

TEST(TrainerVerdict, DoesNotWaitForALoggingStep) {
  Scenario setup{.ranks = 2, .config = small(4)};
  setup.config.train.epochs = 40;
  setup.log_every = {.steps = 1000};
  std::vector<RankRun> runs = run(setup);
  EXPECT_EQ(runs[0].judged, std::vector<int64_t>{101}) << "a step ends where the next one begins";
  EXPECT_TRUE(runs[1].judged.empty());
  EXPECT_EQ(runs[0].result.evidence.ranks[0].steps.size(), 120 - 1 - RunMeasurements::kWarmUpSteps);
  setup.log_every = {.steps = 60};
  EXPECT_EQ(run(setup)[0].judged, std::vector<int64_t>{60}) << "it is there before";
}

TEST(TrainerVerdict, OnRequestComesWithTheFirstStepAtTheEarliest) {
  for (const int ranks : {1, 2}) {
    Scenario setup{.ranks = ranks, .config = small(4)};
    setup.verdict_at_rank = ranks - 1;
    EXPECT_EQ(run(setup)[0].judged, std::vector<int64_t>{1}) << "asked during start-up";
    setup.verdict_in = "forward";
    setup.headroom_seconds = 0.05;
    EXPECT_EQ(run(setup)[0].judged, std::vector<int64_t>{1}) << "asked while headroom is measured";
    setup.headroom_seconds = 0;
    EXPECT_EQ(run(setup)[0].judged, std::vector<int64_t>{ranks + 1}) << "asked in the first step";
  }
}

}  // namespace
}  // namespace dtrain::train
