#include "diagnose/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "diagnose/made_faults.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Verdict, AHealthyRunHasNothingWorthChanging) {
  for (const size_t ranks : {1, 2, 8}) {
    const Verdict verdict = judge(healthy_run(ranks));
    EXPECT_THAT(verdict.findings, IsEmpty()) << verdict.text;
    EXPECT_THAT(
        verdict.text,
        ContainsRegex(
            "^verdict: compute-bound, nothing worth changing: 9[1-5] % of 9[5-9]\\.. ms in"));
  }
}

TEST(Verdict, FewStepsSayNothing) {
  RunEvidence run = healthy_run(1, kFewestSteps - 1);
  lengthen(run, 0, Phase::kCheckpoint, 1);
  EXPECT_EQ(judge(run).text, "verdict: too few steps for a verdict (19 of 20 after warm-up)");
  EXPECT_EQ(judge({}).text, "verdict: too few steps for a verdict (0 of 20 after warm-up)");
}

TEST(Verdict, SaysHowFarBehindARankWasAtItsFirstAndItsLastBucket) {
  RunEvidence run = healthy_run(3);
  lengthen(run, 1, Phase::kBackward, 0.030);
  for (size_t rank = 0; rank < 3; ++rank) {
    const double slow = rank == 1 ? 1 : 0;
    for (StepTimes& step : run.ranks[rank].steps) {
      step.buckets = {0.010 + 0.002 * slow, 0.030 + 0.015 * slow, 0.060 + 0.030 * slow};
    }
  }
  EXPECT_THAT(judge(run).text,
              HasSubstr(" ms more in backward than the other ranks (2.0 at its first bucket of "
                        "gradients, 30.0 at its last); ranks wait "));
}

TEST(Verdict, RanksAreNamed) {
  RunEvidence run = healthy_run(5);
  lengthen(run, 3, Phase::kBackward, 0.030);
  EXPECT_THAT(
      judge(run).text,
      ContainsRegex(
          "^verdict: late rank 3: 30\\.. of 12[789]\\.. ms more in backward than the other "
          "ranks; ranks wait 2[34]\\.. ms for the last one; .(29|3.) % if its machine kept up"));
}

// Without a loss scale, what is not finite has another reason.
TEST(Verdict, SkippedStepsWithoutALossScaleAreNotOfTheScale) {
  RunEvidence run = healthy_run();
  run.ranks[0].values[Quantity::kSkippedSteps] = 0.2;
  EXPECT_THAT(judge(run).findings, IsEmpty());
  run.ranks[0].values[Quantity::kLossScale] = 2;
  EXPECT_EQ(cause_of(run), Cause::kLossScale);
}

// A T4 has no bfloat16, and refuses it.
TEST(Verdict, ACardWithoutBfloat16IsNotAdvisedToUseIt) {
  const Planted planted = skipped_steps(0.2);
  RunEvidence run = evidence_of(planted.slow);
  planted.measure(run);
  EXPECT_EQ(judge(run).findings.at(0).setting, "--amp bf16");
  run.ranks[1].values[Quantity::kGpuCapability] = 75;
  EXPECT_EQ(judge(run).findings.at(0).setting, "");
  EXPECT_THAT(judge(run).text, HasSubstr("% with a lower --lr or --optimizer.clip_norm 1"));
}

TEST(Verdict, TheFullClockThatWasNeverSeenIsABound) {
  RunEvidence run = healthy_run(2);
  set_healthy_gpu(run);
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kWorkingSmClock] = 1.2e9;
    rank.values[Quantity::kSlowedByPower] = 1;
    rank.values[Quantity::kPowerLimit] = 200;
    rank.values[Quantity::kHighestSmClock] =
        std::exchange(rank.values[Quantity::kFullSmClock], kUnknown);
  }
  EXPECT_THAT(judge(run).text,
              ContainsRegex(
                  "^verdict: throttled by power: clock of 1200 of at most 1800 MHz, at a power "
                  "limit of 200 W "
                  ".2 of 2 ranks., in every reading, so the gain is an upper bound; .4[0-9] % with "
                  "nvidia-smi -pl 350"));
}

// Half as many transfers per second in each generation, whatever the lanes.
TEST(Verdict, AnOldSlotHasSlowLanes) {
  RunEvidence run = evidence_of({.h2d = 0.040});
  set_healthy_gpu(run);
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kLinkGeneration] = 3;
    rank.values[Quantity::kCardGeneration] = 4;
  }
  EXPECT_THAT(judge(run).text,
              ContainsRegex("over 16 of 16 PCIe lanes of generation 3 instead of 4 .2 of 2 ranks.; "
                            ".1[67] % in a slot with 16 lanes of generation 4"));
}

// A longer interval does not make the best checkpoints rarer: they follow evaluations.
TEST(Verdict, SavingTheBestHasItsOwnSetting) {
  RunEvidence run = healthy_run();
  run.settings.evaluations = 1;
  lengthen(run, 0, Phase::kCheckpoint, 0.05);
  EXPECT_THAT(judge(run).text, HasSubstr(" ms saving; +50 % with --checkpoint.every "));
  lengthen(run, 0, Phase::kEval, 0.0001);
  EXPECT_THAT(judge(run).text,
              HasSubstr(" ms saving the best so far; +52 % with --checkpoint.keep_best false"));
  run.settings.saves_by_steps = true;
  EXPECT_THAT(judge(run).text,
              HasSubstr("% with --checkpoint.keep_best false --checkpoint.every "));
  run.settings.keeps_best = false;
  EXPECT_THAT(judge(run).text, HasSubstr(" with --checkpoint.every "));
}

TEST(Verdict, WhatAnyRankOrHostDoesNotTellIsNamed) {
  RunEvidence run = healthy_run(2);
  const auto missing = [](const RunEvidence& r) { return judge(r).not_measured; };
  EXPECT_THAT(missing(run), testing::ElementsAre("copy and kernel launches: no GPU clock"));
  run.hosts.push_back({.name = "blind"});
  run.ranks[1].host = 1;
  run.ranks[1].values[Quantity::kRunDelay] = run.ranks[1].values[Quantity::kThrottled] = kUnknown;
  run.ranks[1].values[Quantity::kLoaderThreads] = 2;
  lengthen(run, 1, Phase::kDataWait, 0.02);
  EXPECT_THAT(missing(run),
              testing::ElementsAre("copy and kernel launches: no GPU clock", "waiting for cores",
                                   "CPU limit of the control group",
                                   "other processes and idle cores", "I/O wait of the host",
                                   "steal", "swap", "page cache", "free memory of the host",
                                   "fewer readers: half of them read too few samples alone"));
}

// A GPU that waits for data has no clock under load, and NVML works all the same.
TEST(Verdict, WhatAGpuDoesNotTellIsNamed) {
  RunEvidence run = healthy_run(2);
  set_healthy_gpu(run);
  const auto missing = [&] { return judge(run).not_measured; };
  EXPECT_THAT(missing(), IsEmpty());
  Values& gpu = run.ranks[1].values;
  gpu[Quantity::kWorkingSmClock] = kUnknown;
  gpu[Quantity::kGpuUtilization] = 0.2;
  EXPECT_THAT(missing(), testing::ElementsAre("clock of the GPU: it was mostly idle"));
  gpu[Quantity::kGpuUtilization] = 0.9;
  EXPECT_THAT(missing(), testing::ElementsAre("clock of the GPU: it does not tell it"));
  gpu[Quantity::kGpuUtilization] = kUnknown;  // such as a part of a GPU that is divided (MIG)
  EXPECT_THAT(missing(), testing::ElementsAre(
                             "clock and idle time of the GPU: it does not say how busy it is"));
  forget_gpu(gpu);
  EXPECT_THAT(missing(), testing::ElementsAre("power, heat and idle time of the GPU: no NVML",
                                              "PCIe link of the GPU"));
  forget_gpu(run.ranks[0].values);
  EXPECT_EQ(missing().size(), 2u) << "once for all ranks";
}

// The rank that the others wait for says what to change, whichever number it has.
TEST(Verdict, TheRankThatComputesLongestSpeaksForTheLaunchesAndThePrecision) {
  for (const size_t slow : {0, 1}) {
    RunEvidence run = evidence_of({.ranks = 2, .h2d = 0});
    set_healthy_gpu(run);
    lengthen(run, slow, Phase::kForward, 0.010);
    RankEvidence &late = run.ranks[slow], &other = run.ranks[1 - slow];
    set_launch(late, 0.100);
    late.values[Quantity::kGpuUtilization] = 0.6;
    set_launch(other, 0.001);
    EXPECT_THAT(judge(run).text, HasSubstr(" ms launching kernels, the GPU idle in ")) << slow;
    EXPECT_THAT(text_of(judge(run)), testing::Not(HasSubstr("train.cuda_graph")));
    run.settings.can_use_graphs = true;
    EXPECT_THAT(text_of(judge(run)), HasSubstr("or --train.cuda_graph true with the same batch"));
    set_launch(late, 0.001);
    run.settings.precision = "fp32";
    other.values[Quantity::kGpuCapability] = 61;
    EXPECT_THAT(text_of(judge(run)), HasSubstr(" in forward and backward without tensor cores"))
        << slow;
    std::swap(late.values[Quantity::kGpuCapability], other.values[Quantity::kGpuCapability]);
    EXPECT_THAT(text_of(judge(run)), testing::Not(HasSubstr("without tensor cores"))) << slow;
  }
}

// Some drivers tell the generation of a link alone.
TEST(Verdict, ALinkOfAnOldGenerationIsNamedWithoutItsLanes) {
  RunEvidence run = evidence_of({.ranks = 1, .h2d = 0.04});
  set_healthy_gpu(run);
  run.ranks[0].values.set({{Quantity::kLinkGeneration, 3}, {Quantity::kCardGeneration, 4}});
  run.ranks[0].values[Quantity::kLinkWidth] = kUnknown;
  EXPECT_THAT(judge(run).text, HasSubstr(", over PCIe of generation 3 instead of 4;"));
  EXPECT_THAT(judge(run).text, HasSubstr("in a slot with 16 lanes of generation 4"));
}

// A machine is slow, not one of its ranks.
TEST(Verdict, ASlowHostIsNamed) {
  RunEvidence run = healthy_run(4);
  for (size_t rank = 0; rank < 4; ++rank) {
    const Phase phase = rank < 2 ? Phase::kAllReduceWait : Phase::kForward;
    for (StepTimes& step : run.ranks[rank].steps) {
      step.phases[index_of(phase)] += 0.030;
      step.wall += 0.030;
    }
    run.ranks[rank].host = rank < 2 ? 0 : 1;
  }
  run.hosts.push_back(run.hosts[0]);
  run.hosts[1].name = "node7";
  const Verdict verdict = judge(run);
  EXPECT_THAT(
      verdict.text,
      HasSubstr(" more in forward than the other ranks; 2 of 2 ranks of host node7 are late; "));
  ASSERT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
  EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.30, 0.05);
}

// A rank that is slow in every step, and much slower now and then, is one line of the table.
TEST(Verdict, NoCauseIsNamedTwiceForOneRank) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 1, Phase::kBackward, 0.020);
  for (size_t step = 0; step < 100; step += 7) {
    for (size_t rank = 0; rank < 2; ++rank) {
      run.ranks[rank]
          .steps[step]
          .phases[index_of(rank == 1 ? Phase::kForward : Phase::kAllReduceWait)] += 0.3;
      run.ranks[rank].steps[step].wall += 0.3;
    }
  }
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
  EXPECT_THAT(verdict.text, HasSubstr("late rank 1: "));
}

// Threads of this job that have no cores make ranks late, now one and now another, and
// messages slow.
TEST(Verdict, TooManyOwnThreadsAreNotTheFaultOfRanksOrOfTheNetwork) {
  for (const int late : {-1, 1}) {
    RunEvidence run =
        evidence_of({.ranks = 2, .network = 0.020, .slow = stalled(late, 0.03).slow.slow});
    for (RankEvidence& rank : run.ranks) {
      rank.values[Quantity::kComputeThreads] = 8;
      rank.values[Quantity::kRunDelay] = 0.03;
    }
    const Verdict verdict = judge(run);
    EXPECT_THAT(
        verdict.text,
        ContainsRegex("^verdict: cores oversubscribed: .* 2 ranks have 16 threads of the network "
                      "on 4 cores; try --device.threads 2"));
    EXPECT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
    for (RankEvidence& rank : run.ranks) rank.values[Quantity::kComputeThreads] = 1;
    EXPECT_NE(judge(run).findings.at(0).cause, Cause::kOversubscribed);
  }
}

// A process that ran for 1 ms kept no rank waiting for 40.
TEST(Verdict, NoRankWaitsForOthersLongerThanTheyRan) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kBackward, 0.040);
  run.ranks[0].values[Quantity::kRunDelay] = 0.045;
  run.hosts[0].others_cpu = 0.001;
  for (RankEvidence& rank : run.ranks) set_side_cpu(rank, 0);
  EXPECT_EQ(cause_of(run), Cause::kLateRank);
}

// Evaluations come when they are asked for: that there were few of them says nothing about
// the gain.
TEST(Verdict, PlannedEventsAreCertain) {
  RunEvidence run = healthy_run(1, 60);
  run.settings.evaluations = 0.05;
  for (const size_t step : {19, 39, 59}) {
    run.ranks[0].steps[step].phases[index_of(Phase::kEval)] += 0.3;
    run.ranks[0].steps[step].wall += 0.3;
  }
  EXPECT_THAT(judge(run).text,
              ContainsRegex(
                  "^verdict: evaluation-bound: .* ms evaluating; .1. % with --train.eval_every "));
}

// A long run keeps few steps in relation to an epoch: how many evaluations are among them is a
// matter of chance.
TEST(Verdict, OneEvaluationAmongTheStepsIsEnough) {
  RunEvidence run = healthy_run(2, 400);
  run.settings.steps_per_epoch = 200;
  run.settings.evaluations = 1.0 / 200;
  for (RankEvidence& rank : run.ranks) {
    rank.steps[150].phases[index_of(Phase::kEval)] += 4;
    rank.steps[150].wall += 4;
  }
  const Verdict verdict = judge(run);
  EXPECT_THAT(verdict.text, HasSubstr("verdict: evaluation-bound: 20.0 of 1"));
  EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.18, 0.02)
      << "4 s in 200 steps of 0.1 s, and once in 19 epochs";
}

// Of a long run the steps that are kept may have none of them: then those before count.
TEST(Verdict, EvaluationsBeforeTheStepsThatAreKeptCount) {
  RunEvidence run = healthy_run(2, 400);
  run.settings.steps_per_epoch = 2000;
  run.settings.evaluations = 1.0 / 2000;
  run.settings.steps_left = 100000;
  EXPECT_THAT(text_of(judge(run)), HasSubstr("evaluations: none yet"));
  run.ended_steps = 4500;
  run.evaluations = {.count = 2, .seconds = 80};
  const Verdict verdict = judge(run);
  EXPECT_THAT(verdict.text, HasSubstr("verdict: evaluation-bound: 20.0 of 1"));
  EXPECT_NEAR(verdict.findings.at(0).gain->ratio, 0.18, 0.02)
      << "40 s in 2000 steps of 0.1 s, and once in 20 epochs";
  EXPECT_THAT(text_of(verdict), Not(HasSubstr("none yet")));
  run.settings.evaluations = 0;  // by time, and none lately
  EXPECT_NEAR(judge(run).findings.at(0).gain->ratio, 0.16, 0.02) << "40 s in 2250 steps";
}

TEST(Verdict, TheOnlyEvaluationIsThatAtTheEndAndStays) {
  RunEvidence run = healthy_run(2, 60);
  run.settings.steps_per_epoch = 66;
  run.settings.evaluations = 1.0 / 66;
  run.settings.epochs = 1;
  run.settings.steps_left = 0;
  run.ended_steps = 66;
  run.evaluations = {.count = 1, .seconds = 2};
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
  run.settings.epochs = 2;
  EXPECT_NEAR(judge(run).findings.at(0).gain->ratio, 1.303 / 1.152 - 1, 0.03) << "one of two";
}

// A rank that is late because its threads wait for a core is not slow itself.
TEST(Verdict, TheDeeperCauseTakesThePlaceOfALateRank) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kBackward, 0.040);
  run.ranks[0].values[Quantity::kRunDelay] = 0.045;
  run.hosts[0].others_cpu = 0.07;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kOversubscribed);
  EXPECT_EQ(verdict.findings[0].rank, 0);
  EXPECT_EQ(verdict.findings.size(), 1u) << verdict.also[0];
  EXPECT_THAT(verdict.text,
              HasSubstr(" ms waiting for a core; other processes use 0.5 of 4 cores"));
  run.ranks[0].values[Quantity::kRunDelay] = 0.0005;
  EXPECT_EQ(cause_of(run), Cause::kLateRank);
}

// What a limit says stands beside the gains, and in their place where there are none.
TEST(Verdict, LimitsHaveAPlace) {
  RunEvidence run = healthy_run();
  for (MemoryPoint& point : run.ranks[0].memory) point.bytes += 2e6 * point.steps;
  EXPECT_THAT(
      judge(run).text,
      ContainsRegex("^verdict: memory grows: 1.9 MiB more per step, 1.1 GiB now; the host runs "
                    "out of memory in 10000 steps"));
  lengthen(run, 0, Phase::kCheckpoint, 0.05);
  lengthen(run, 0, Phase::kEval, 0.05);
  lengthen(run, 0, Phase::kDataWait, 0.05);
  run.settings.evaluations = 1;
  const Verdict verdict = judge(run);
  ASSERT_EQ(verdict.findings.size(), 3u);
  EXPECT_TRUE(verdict.findings[1].gain.has_value());
  EXPECT_EQ(verdict.findings[2].cause, Cause::kMemoryGrowth);
}

// Of a batch that is longer than all before it the buffers stay, and then they are long enough.
TEST(Verdict, BuffersThatFillAreNoGrowingMemory) {
  using Megabytes = std::vector<double>;
  const auto cause_of = [](const Megabytes& memory) {
    RunEvidence run = healthy_run();
    run.hosts[0].values[Quantity::kFreeMemory] = 5e9;
    run.ranks[0].memory.clear();
    for (const double megabytes : memory) {
      run.ranks[0].memory.push_back(
          {5.0 * static_cast<double>(run.ranks[0].memory.size()), 1e6 * megabytes});
    }
    return judge(run).findings;
  };
  const auto grows = ElementsAre(Field(&Finding::cause, Cause::kMemoryGrowth));
  EXPECT_THAT(cause_of({546, 557, 566, 578, 586, 597, 605, 617, 627}), grows);
  EXPECT_THAT(cause_of({546, 563, 577, 594, 598, 602, 614, 626, 628, 627}), IsEmpty())
      << "of a healthy run";
  EXPECT_THAT(cause_of({488, 501, 514, 520, 521, 537, 538, 544, 547}), IsEmpty())
      << "of another one";
  EXPECT_THAT(cause_of({546, 547, 548, 587, 588, 589, 626, 627, 627}), IsEmpty()) << "two jumps";
}

// Two steps of 40 are slow: the mean gain is large, but says nothing about the next steps.
TEST(Verdict, ABurstIsNoVerdict) {
  RunEvidence run = healthy_run(1, 40);
  for (size_t i = 0; i < 2; ++i) {
    run.ranks[0].steps[i].phases[index_of(Phase::kCheckpoint)] += 0.1;
    run.ranks[0].steps[i].wall += 0.1;
  }
  EXPECT_THAT(judge(run).findings, IsEmpty());
}

// Each second has one cause: a runner-up gains what is left once the verdict's time is gone.
TEST(Verdict, AtMostOneVerdictAndTwoRunnersUp) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kDataWait, 0.05);
  lengthen(run, 1, Phase::kBackward, 0.08);
  lengthen(run, 0, Phase::kCheckpoint, 0.06);
  lengthen(run, 0, Phase::kEval, 0.06);
  run.settings.evaluations = 1;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings.size(), 3u);
  EXPECT_EQ(verdict.also.size(), 2u);
  double left = mean_wall(run.ranks[0].steps);
  for (const Finding& f : verdict.findings) left /= 1 + f.gain->ratio;
  EXPECT_GT(left, 0.097) << "more was promised than there is";
}

TEST(Verdict, EfficiencyAsThePopMetrics) {
  EXPECT_EQ(efficiency_text(healthy_run(1)), "");
  RunEvidence run = healthy_run(2);
  lengthen(run, 0, Phase::kBackward, 0.095);
  RunEvidence short_run = run;
  for (RankEvidence& rank : short_run.ranks) rank.steps.resize(kFewestSteps - 1);
  EXPECT_EQ(efficiency_text(short_run), "") << "a verdict is not given either";
  EXPECT_EQ(efficiency_text(run),
            "parallel efficiency 74 % = load balance 75 % x communication efficiency 99 %");
}

}  // namespace
}  // namespace dtrain::diagnose
