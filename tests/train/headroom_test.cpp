// What is measured before a training changes nothing in it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace dtrain::train {
namespace {

void expect_equal(const RankRun& measured, const RankRun& plain) {
  ASSERT_EQ(measured.error, "");
  ASSERT_EQ(plain.error, "");
  ASSERT_EQ(measured.weights.size(), plain.weights.size());
  for (size_t i = 0; i < plain.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(measured.weights[i], plain.weights[i])) << "weight " << i;
  }
  ASSERT_EQ(measured.steps.size(), plain.steps.size());
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    const monitoring::StepStats &m = measured.steps[i], &p = plain.steps[i];
    EXPECT_EQ(m.step, p.step);
    EXPECT_EQ(m.loss, p.loss) << "step " << p.step;
    // A skipped step has a norm that is not a number, which equals none.
    EXPECT_EQ(std::bit_cast<uint64_t>(m.grad_norm), std::bit_cast<uint64_t>(p.grad_norm))
        << "step " << p.step;
    EXPECT_EQ(m.learning_rate, p.learning_rate) << "step " << p.step;
    EXPECT_EQ(m.ledger, p.ledger) << "step " << p.step;
    EXPECT_EQ(m.logging, p.logging);
  }
  ASSERT_EQ(measured.evals.size(), plain.evals.size());
  for (size_t i = 0; i < plain.evals.size(); ++i)
    EXPECT_EQ(measured.evals[i].metrics, plain.evals[i].metrics);
  EXPECT_EQ(measured.result.ledger, plain.result.ledger);
  EXPECT_EQ(measured.result.own_steps, plain.result.own_steps);
  EXPECT_EQ(measured.result.bad_samples, plain.result.bad_samples);
  // The loss saw the batches of the measurement first, and then the same ones as without it.
  ASSERT_GT(measured.seen.size(), plain.seen.size());
  EXPECT_TRUE(std::equal(plain.seen.rbegin(), plain.seen.rend(), measured.seen.rbegin()));
}

void expect_changes_nothing(Scenario setup) {
  const std::vector<RankRun> plain = run(setup);
  setup.headroom_seconds = 0.05;
  const std::vector<RankRun> measured = run(setup);
  for (size_t rank = 0; rank < plain.size(); ++rank) expect_equal(measured[rank], plain[rank]);
}

TEST(Headroom, TheTrainingIsTheSameBitByBit) {
  for (const int ranks : {1, 2}) {
    Scenario setup{.ranks = ranks, .config = small(2), .toy = {.batch_norm = true}};
    setup.config.optimizer.lr = 0.05;
    setup.config.schedule.warmup_steps = {.steps = 3};
    expect_changes_nothing(setup);
    setup.config.train.ema = 0.9;
    expect_changes_nothing(setup);
    setup.config.train.ema = 0;
    setup.config.optimizer.name = config::OptimizerName::kSgd;
    setup.config.train.sync_batch_norm = true;
    expect_changes_nothing(setup);
  }
}

TEST(Headroom, NorDoesItMoveARunWhoseSamplesCannotAllBeRead) {
  Scenario setup{.ranks = 2, .config = small(4), .toy = {.batch_norm = true}, .holes = {3, 11}};
  setup.config.data.on_bad_sample = config::OnBadSample::kSkip;
  expect_changes_nothing(setup);
}

TEST(Headroom, NorAResumedRunInItsSecondPhase) {
  const testing::TempDir folder;
  Scenario first{
      .ranks = 2, .config = small(4), .toy = {.phases = true}, .stop_at_rank = 1, .stop_after = 4};
  first.config.run.name = "toy";
  first.config.checkpoint.every = {};
  first.config.train.epochs = 3;
  std::vector<std::vector<RankRun>> resumed;
  for (const char* name : {"plain", "measured"}) {
    Scenario setup = first;
    setup.folder = folder / name;
    ASSERT_EQ(run(setup)[0].result.exit_code, kExitStoppedOnRequest);
    setup.stop_at_rank = -1;
    setup.resume = true;
    setup.headroom_seconds = std::string(name) == "measured" ? 0.05 : 0;
    resumed.push_back(run(setup));
  }
  for (size_t rank = 0; rank < 2; ++rank) expect_equal(resumed[1][rank], resumed[0][rank]);
}

TEST(Headroom, IsEvidenceOfTheVerdict) {
  Scenario setup{.ranks = 2, .config = small(4)};
  setup.config.train.epochs = 12;  // 36 steps
  setup.headroom_seconds = 0.05;
  const std::vector<RankRun> runs = run(setup);
  const diagnose::RunEvidence& evidence = runs[0].result.evidence;
  ASSERT_EQ(evidence.ranks.size(), 2u);
  EXPECT_GT(evidence.cached_step, 0);
  EXPECT_LT(evidence.cached_step, 1);
  EXPECT_EQ(evidence.ranks[0].steps.size(), 36 - 1 - measure::RunMeasurements::kWarmUpSteps)
      << "none of those that were measured";
  EXPECT_TRUE(runs[1].result.evidence.ranks.empty());
  // And what a step sends, against what that costs.
  EXPECT_TRUE(evidence.network.known());
  EXPECT_GT(evidence.network.latency, 0);
  EXPECT_EQ(evidence.network.messages, 2);
  EXPECT_EQ(evidence.network.plan.bytes.size(), 1u);
  for (const diagnose::RankEvidence& rank : evidence.ranks) {
    const auto sent =
        std::count_if(rank.steps.begin(), rank.steps.end(), [](const measure::StepTimes& step) {
          return step.buckets[0] > 0 && step.buckets[2] <= step.of(measure::Phase::kBackward);
        });
    EXPECT_GE(sent, 20) << "but for the tails of epochs, in which a rank may have no sample";
  }
}

// What the network costs is measured only where a verdict can use it.
TEST(Headroom, AShortRunIsNotDelayed) {
  for (const RankRun& rank : run({.ranks = 2, .config = small(4)})) {
    EXPECT_EQ(rank.error, "");
    EXPECT_FALSE(rank.result.evidence.network.known());
    EXPECT_TRUE(std::isnan(rank.result.evidence.cached_step));
  }
}

}  // namespace
}  // namespace dtrain::train
