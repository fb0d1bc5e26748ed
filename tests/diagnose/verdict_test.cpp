#include "diagnose/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/made_run.h"

namespace dtrain::diagnose {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Cause cause_of(const RunEvidence& run) {
  const Verdict verdict = judge(run);
  EXPECT_FALSE(verdict.findings.empty()) << verdict.text;
  return verdict.findings.empty() ? Cause{} : verdict.findings[0].cause;
}

double gain_in(const RunEvidence& run) { return judge(run).findings.at(0).gain.value().ratio; }

TEST(Verdict, AHealthyRunHasNothingWorthChanging) {
  for (const size_t ranks : {1, 2, 8}) {
    const Verdict verdict = judge(healthy_run(ranks));
    EXPECT_THAT(verdict.findings, IsEmpty()) << verdict.text;
    EXPECT_THAT(verdict.text, StartsWith("verdict: compute-bound, nothing worth changing: 94 % of 96."));
  }
}

TEST(Verdict, FewStepsSayNothing) {
  RunEvidence run = healthy_run(1, kFewestSteps - 1);
  lengthen(run, 0, Phase::kCheckpoint, 1);
  EXPECT_EQ(judge(run).text, "verdict: too few steps for a verdict (19 of 20 after warm-up)");
  EXPECT_EQ(judge({}).text, "verdict: too few steps for a verdict (0 of 20 after warm-up)");
}

// One reader that takes 150 ms for a batch, mostly waiting for a disk: two take 75 ms, which is below the step.
TEST(Verdict, MoreReadersWhereTheyWouldKeepUp) {
  RunEvidence run = healthy_run();
  lengthen(run, 0, Phase::kDataWait, 0.054);
  run.ranks[0].loader.read = 0.130;
  run.ranks[0].cores.cpu = 0.096;
  const Verdict verdict = judge(run);
  EXPECT_THAT(verdict.text,
              StartsWith("verdict: data-bound on disk: 54.0 of 150.0 ms waiting; +56 % with --data.workers 2"));
}

TEST(Verdict, NoMoreReadersThanTheCoresCanRun) {
  RunEvidence run = healthy_run();
  lengthen(run, 0, Phase::kDataWait, 0.054);
  run.ranks[0].loader.augment = 0.150;
  run.ranks[0].cores.cpu = 0.150;  // one core, always busy
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kAugment);
  EXPECT_THAT(verdict.text, HasSubstr("+56 % with more cores"));
  run.ranks[0].cores.cores = 4;
  EXPECT_THAT(judge(run).text, HasSubstr("with --data.workers 2"));
}

TEST(Verdict, NamesTheRankWhoseDataTheOthersWaitFor) {
  RunEvidence run = healthy_run(4);
  lengthen(run, 2, Phase::kDataWait, 0.050);
  run.ranks[2].loader.read = 0.130;
  run.ranks[2].cores.cpu = 0.096;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDisk);
  EXPECT_EQ(verdict.findings[0].rank, 2);
}

TEST(Verdict, ARankThatIsLateInBackwardIsNamed) {
  for (const size_t ranks : {2, 5}) {
    RunEvidence run = healthy_run(ranks);
    lengthen(run, 1, Phase::kBackward, 0.030);
    const Verdict verdict = judge(run);
    ASSERT_EQ(verdict.findings.size(), 1u);
    EXPECT_EQ(verdict.findings[0].cause, Cause::kLateRank);
    EXPECT_EQ(verdict.findings[0].rank, 1);
    EXPECT_NEAR(gain_in(run), 126.0 / 96 - 1, 0.02);
    EXPECT_THAT(verdict.text, HasSubstr("late rank 1: 30.0 of 126.1 ms more in backward than the other ranks; +3"));
  }
}

TEST(Verdict, RanksThatAreLateInTurnAreUneven) {
  RunEvidence run = healthy_run(2);
  for (size_t i = 0; i < run.ranks[0].steps.size(); ++i) {
    for (size_t rank = 0; rank < 2; ++rank) {
      StepTimes& step = run.ranks[rank].steps[i];
      step.phases[index_of(i % 2 == rank ? Phase::kForward : Phase::kAllReduceWait)] += 0.040;
      step.wall += 0.040;
    }
  }
  EXPECT_EQ(cause_of(run), Cause::kRotatingRank);
}

TEST(Verdict, AllRanksThatWaitForGradientsAreBoundByTheNetwork) {
  RunEvidence run = healthy_run(3);
  for (RankEvidence& rank : run.ranks) {
    for (StepTimes& step : rank.steps) {
      step.phases[index_of(Phase::kAllReduceWait)] += 0.060;
      step.wall += 0.060;
    }
  }
  run.network = {.latency = 20e-3, .seconds_per_byte = 1e-10, .messages = 3, .bytes = 4e6};
  Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kLatency);
  EXPECT_THAT(verdict.text,
              HasSubstr("all ranks wait 61.0 of 156.0 ms for gradients, 3 messages cost 60.4 ms when nobody is late"));
  EXPECT_THAT(verdict.text, HasSubstr("+26 % with --accumulate 2"));
  run.network = {.latency = 20e-6, .seconds_per_byte = 1e-8, .messages = 3, .bytes = 6e6};
  EXPECT_EQ(cause_of(run), Cause::kBandwidth);
  run.network = {};
  verdict = judge(run);
  EXPECT_THAT(verdict.not_measured, testing::Contains("the network's own cost"));
}

TEST(Verdict, CheckpointsAndEvaluationsThatCostTooMuch) {
  RunEvidence run = healthy_run(2);
  run.settings.saves = 0.2;
  for (RankEvidence& rank : run.ranks) {
    for (size_t i = 0; i < rank.steps.size(); i += 5) {
      rank.steps[i].phases[index_of(Phase::kCheckpoint)] += 0.1;
      rank.steps[i].wall += 0.1;
    }
  }
  EXPECT_THAT(judge(run).text,
              StartsWith("verdict: checkpoint-bound: 20.0 of 116.0 ms saving; +20 % with --checkpoint.every 105steps"));
  run = healthy_run();
  run.settings.evaluations = 0.1;
  for (size_t i = 0; i < 100; i += 10) {
    run.ranks[0].steps[i].phases[index_of(Phase::kEval)] += 0.5;
    run.ranks[0].steps[i].wall += 0.5;
  }
  EXPECT_THAT(judge(run).text, HasSubstr("evaluating; +51 % with --train.eval_every 6epochs"));
}

TEST(Verdict, OtherProcessesOnTheCoresAreTheDeeperCauseOfALateRank) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kBackward, 0.040);
  run.ranks[0].cores.run_delay = 0.040;
  run.hosts[0].others_cpu = 0.07;
  run.ranks[0].cores.cpu = run.ranks[1].cores.cpu = 0.095;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kOversubscribed);
  EXPECT_EQ(verdict.findings[0].rank, 0);
  EXPECT_EQ(verdict.findings.size(), 1u) << verdict.also[0];
  EXPECT_THAT(verdict.text, HasSubstr("40.0 of 136.0 ms waiting for a core; other processes use 0.5 of 2 cores"));
}

TEST(Verdict, ALimitOfTheControlGroup) {
  RunEvidence run = healthy_run();
  lengthen(run, 0, Phase::kBackward, 0.050);
  run.ranks[0].cores.throttled = 0.050;
  EXPECT_EQ(cause_of(run), Cause::kCpuLimit);
  EXPECT_NEAR(gain_in(run), 146.0 / 96 - 1, 0.02);
}

TEST(Verdict, GrowingMemoryIsSaidBesideTheVerdict) {
  RunEvidence run = healthy_run();
  run.ranks[0].memory_growth = 1 << 20;
  run.ranks[0].memory = 3.0 * (1 << 30);
  const Verdict verdict = judge(run);
  EXPECT_THAT(verdict.text, HasSubstr("nothing worth changing"));
  ASSERT_EQ(verdict.also.size(), 1u);
  EXPECT_THAT(verdict.also[0], HasSubstr("memory grows: memory grows by 1.0 MiB per step, to 3.0 GiB now"));
}

// The first half is slow, the second is not: the mean gain is large, but says nothing about the next steps.
TEST(Verdict, ABurstIsNoVerdict) {
  RunEvidence run = healthy_run(1, 40);
  for (size_t i = 0; i < 2; ++i) {
    run.ranks[0].steps[i].phases[index_of(Phase::kCheckpoint)] += 0.1;
    run.ranks[0].steps[i].wall += 0.1;
  }
  EXPECT_THAT(judge(run).findings, IsEmpty());
}

TEST(Verdict, AtMostOneVerdictAndTwoRunnersUp) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kDataWait, 0.05);
  lengthen(run, 1, Phase::kBackward, 0.08);
  lengthen(run, 0, Phase::kCheckpoint, 0.06);
  lengthen(run, 0, Phase::kEval, 0.06);
  run.settings.evaluations = run.settings.saves = 1;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings.size(), 3u);
  EXPECT_EQ(verdict.also.size(), 2u);
  for (size_t i = 1; i < 3; ++i) EXPECT_GE(verdict.findings[i - 1].gain->ratio, verdict.findings[i].gain->ratio);
}

TEST(Verdict, EfficiencyAsThePopMetrics) {
  EXPECT_EQ(efficiency_text(healthy_run(1)), "");
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kBackward, 0.095);
  EXPECT_EQ(efficiency_text(run), "parallel efficiency 75 % = load balance 75 % x communication efficiency 99 %");
}

}  // namespace
}  // namespace dtrain::diagnose
