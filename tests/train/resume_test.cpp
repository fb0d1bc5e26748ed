// A run that stops and resumes equals one that never stopped: phases, moments, averages, and the
// evaluation that the stop left out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/temp_dir.h"
#include "train/toy_run.h"
#include "train/training_state.h"

namespace dtrain::train {
namespace {

// The step and the metrics of each evaluation.
using Evaluations = std::vector<std::pair<int64_t, std::vector<std::pair<std::string, double>>>>;
Evaluations evaluations(std::initializer_list<RankRun> parts) {
  Evaluations all;
  for (const RankRun& part : parts) {
    for (const monitoring::EvalStats& e : part.evals) all.emplace_back(e.step, e.metrics);
  }
  return all;
}

// Compares a whole run with one that is stopped and resumed: the same weights, bit by bit, and the
// same reports.
void expect_resumes_exactly(const Scenario& given, int64_t stop_after) {
  const testing::TempDir folder;
  Scenario setup = given;
  setup.config.run.name = "toy";
  setup.config.checkpoint.every = {};
  Scenario first = setup, second = setup;
  setup.folder = folder / "whole";
  first.folder = second.folder = folder / "parts";
  const RankRun whole = run(setup)[0];
  ASSERT_EQ(whole.error, "");
  first.stop_at_rank = setup.ranks - 1;
  first.stop_after = stop_after;
  second.resume = true;
  const RankRun stopped = run(first)[0];
  ASSERT_EQ(stopped.error, "");
  ASSERT_EQ(stopped.result.exit_code, kExitStoppedOnRequest);
  ASSERT_EQ(stopped.result.steps, stop_after);
  const RankRun resumed = run(second)[0];
  ASSERT_EQ(resumed.error, "");
  ASSERT_EQ(resumed.weights.size(), whole.weights.size());
  for (size_t i = 0; i < whole.weights.size(); ++i)
    EXPECT_TRUE(at::equal(whole.weights[i], resumed.weights[i])) << i;
  EXPECT_EQ(resumed.result.ledger, whole.result.ledger);
  EXPECT_EQ(evaluations({stopped, resumed}), evaluations({whole}));
  EXPECT_EQ(resumed.result.validation, whole.result.validation);
  EXPECT_EQ(resumed.result.best, whole.result.best);
  EXPECT_EQ(resumed.result.reason, whole.result.reason);
}

TEST(Trainer, ResumesInTheRightPhaseWithTheMomentsOfBoth) {
  for (const int ranks : {1, 2}) {
    Scenario setup{.ranks = ranks, .config = small(4), .toy = {.phases = true}};
    setup.config.optimizer.lr = 0.1;
    setup.config.schedule.name = config::ScheduleName::kConstant;
    setup.config.train.epochs = 5;
    expect_resumes_exactly(setup, 4);  // in the first odd epoch
    expect_resumes_exactly(setup, 9);  // at the end of the second even one, which is evaluated
  }
}

// No step is left: the resumed run only reports what the checkpoint holds.
TEST(Trainer, ResumesAFinishedRunOfTwoPhases) {
  const testing::TempDir folder;
  Scenario setup{.ranks = 2, .config = small(4), .toy = {.phases = true}, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.checkpoint.every = {};
  const RankRun whole = run(setup)[0];
  ASSERT_EQ(whole.error, "");
  setup.resume = true;
  for (const RankRun& again : run(setup)) {
    ASSERT_EQ(again.error, "");
    EXPECT_EQ(again.result.own_steps, 0);
    EXPECT_EQ(again.result.ledger, whole.result.ledger);
    EXPECT_EQ(again.result.best, whole.result.best);
    for (size_t i = 0; i < whole.weights.size(); ++i)
      EXPECT_TRUE(at::equal(whole.weights[i], again.weights[i])) << i;
  }
}

TEST(Trainer, EachPhaseTrainsItsOwnParameters) {
  Scenario setup{.config = small(8), .toy = {.phases = true}};
  setup.config.optimizer.lr = 0.1;
  setup.config.train.epochs = 1;
  const RankRun even = run(setup)[0];
  EXPECT_FALSE(at::equal(even.weights[0], at::zeros({3})));
  EXPECT_TRUE(at::equal(even.weights[1], at::zeros({3})));
  setup.config.train.epochs = 2;
  setup.config.schedule.name = config::ScheduleName::kConstant;
  const RankRun both = run(setup)[0];
  EXPECT_FALSE(at::equal(both.weights[1], at::zeros({3})));
}

TEST(Trainer, ResumesAveragedWeightsAndWatchesBitByBit) {
  Scenario setup{.config = small(4)};
  setup.config.optimizer.lr = 0.3;
  setup.config.train.ema = 0.9;
  setup.config.train.patience = 50;
  setup.config.schedule.name = config::ScheduleName::kPlateau;
  setup.config.schedule.patience = 0;
  setup.config.schedule.threshold = 0.5;
  setup.config.train.epochs = 6;
  for (const int64_t stop_after : {6, 7})
    expect_resumes_exactly(setup, stop_after);  // at an evaluation, and after one
  setup.config.train.eval_every = {.steps = 1};
  expect_resumes_exactly(setup, 7);
}

// The stop comes when the last evaluation before an early stop is due.
TEST(Trainer, AnEvaluationThatAStopLeftOutMayEndTheResumedRun) {
  Scenario setup{.config = small(4), .toy = {.fault = ToyTask::Fault::kNoProgress}};
  setup.config.train.patience = 2;
  setup.config.train.epochs = 100;
  expect_resumes_exactly(setup, 9);
}

// An evaluation may take longer than the time that a scheduler leaves.
TEST(Trainer, AStopEndsAnEvaluationWhichTheResumedRunMakesUp) {
  for (const int ranks : {1, 2}) {
    Scenario setup{.ranks = ranks,
                   .config = small(1),
                   .stop_in = "val"};  // so that a rank has several batches of it
    setup.config.optimizer.lr = 0.3;
    setup.config.train.ema = 0.9;
    for (const int64_t step : {3, 6})
      expect_resumes_exactly(setup, step);  // after the first epoch, and the last
  }
}

TEST(Trainer, AStopEndsTheTestWhichTheResumedRunDoesAlone) {
  for (const int ranks : {1, 2}) {
    Scenario setup{
        .ranks = ranks, .config = small(1), .stop_in = "test", .test = {0, 1, 2, 3, 4, 5}};
    expect_resumes_exactly(setup, 6);
  }
}

// What the evaluation found is in the checkpoint of its step, as if no stop had been requested.
TEST(Trainer, TheCheckpointGetsTheEvaluationThatIsMadeUp) {
  const testing::TempDir folder;
  Scenario setup{.config = small(1),
                 .stop_at_rank = 0,
                 .stop_after = 6,
                 .stop_in = "val",
                 .folder = folder.path()};
  setup.config.run.name = "toy";
  const auto saved = [&] {
    return from_json(checkpoint::CheckpointStore::load(folder / "step_00000006").state_json);
  };
  ASSERT_EQ(run(setup)[0].result.exit_code, kExitStoppedOnRequest);
  EXPECT_TRUE(saved().evaluation_owed);
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  ASSERT_EQ(resumed.error, "");
  EXPECT_FALSE(saved().evaluation_owed);
  EXPECT_EQ(saved().evaluation, resumed.result.validation);
}

TEST(Trainer, TheCheckpointGetsTheEvaluationThatIsMadeUpAndEndsTheRun) {
  const testing::TempDir folder;
  Scenario setup{.config = small(1),
                 .toy = {.fault = ToyTask::Fault::kNoProgress},
                 .stop_at_rank = 0,
                 .stop_after = 9,
                 .stop_in = "val",
                 .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.patience = 2;
  setup.config.train.epochs = 100;
  ASSERT_EQ(run(setup)[0].result.exit_code, kExitStoppedOnRequest);
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  ASSERT_EQ(resumed.error, "");
  EXPECT_EQ(resumed.result.own_steps, 0) << "the patience was over";
  EXPECT_FALSE(from_json(checkpoint::CheckpointStore::load(folder / "step_00000009").state_json)
                   .evaluation_owed);
}

// An evaluation that is due by the clock does not follow from the step, and is still made up.
TEST(Trainer, MakesUpAnEvaluationByTimeThatAStopLeftOut) {
  const testing::TempDir folder;
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 1, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.eval_every = {.minutes = 1e-9};
  const RankRun stopped = run(setup)[0];
  EXPECT_TRUE(stopped.evals.empty());
  setup.config.train.eval_every = {.epochs = 100};
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  ASSERT_EQ(resumed.error, "");
  ASSERT_EQ(resumed.evals.size(), 2u) << "the one left out, and the one at the end";
  EXPECT_EQ(resumed.evals[0].step, 1);
}

TEST(Trainer, TheBestCheckpointOfAnEvaluationThatIsMadeUpIsKept) {
  const testing::TempDir folder;
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 3, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.checkpoint = {.every = {.steps = 1}, .keep_last = 1, .keep_best = true};
  setup.config.train.epochs = 3;
  setup.config.optimizer.lr = 0;
  ASSERT_EQ(run(setup)[0].error, "");
  setup.stop_at_rank = -1;
  setup.resume = true;
  ASSERT_EQ(run(setup)[0].error, "");
  EXPECT_TRUE(std::filesystem::exists(folder / "step_00000003"));
}

TEST(Trainer, AnotherMetricIsNotComparedWithTheOldOne) {
  const testing::TempDir folder;
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 4, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.metric = "score";  // negative: better than any error
  const RankRun stopped = run(setup)[0];
  ASSERT_LT(stopped.result.best, 0);
  setup.config.train.metric = "error";
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  ASSERT_EQ(resumed.error, "");
  EXPECT_EQ(resumed.result.metric, "error");
  EXPECT_EQ(resumed.result.best, resumed.result.validation[1].second);
}

// Steps that were skipped before the resume do not count: the row that ends a run starts again.
TEST(Trainer, CountsSkippedStepsFromWhereItResumed) {
  const testing::TempDir folder;
  Scenario setup{.config = small(8),
                 .toy = {.fault = ToyTask::Fault::kGradientNotFinite},
                 .stop_at_rank = 0,
                 .stop_after = 2,
                 .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.epochs = 100;
  ASSERT_EQ(run(setup)[0].error, "");
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  EXPECT_EQ(resumed.error_code, 79);
  EXPECT_EQ(resumed.steps.size(), 50u);
}

TEST(Trainer, AResumeWithAnotherScheduleForgetsThePlateau) {
  const testing::TempDir folder;
  Scenario setup{.config = small(8),
                 .toy = {.fault = ToyTask::Fault::kNoProgress},
                 .stop_at_rank = 0,
                 .stop_after = 10,
                 .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.schedule.name = config::ScheduleName::kPlateau;
  setup.config.schedule.patience = 0;
  setup.config.optimizer.lr = 0.01;
  setup.config.train.epochs = 6;
  EXPECT_LT(run(setup)[0].steps.back().learning_rate, 0.01);
  setup.config.schedule.name = config::ScheduleName::kConstant;
  setup.stop_at_rank = -1;
  setup.resume = true;
  const std::vector<RankRun> resumed = run(setup);
  for (const monitoring::StepStats& s : resumed[0].steps) EXPECT_EQ(s.learning_rate, 0.01);
}

}  // namespace
}  // namespace dtrain::train
