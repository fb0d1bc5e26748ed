// Each cause on a run that was made with it: it is named with its rank and its setting, with the
// gain that the run without it has; and a weak one is silent.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "diagnose/document_tables.h"
#include "diagnose/made_faults.h"
#include "diagnose/verdict.h"
#include "monitoring/series.h"
#include "os/file_system.h"

namespace dtrain::diagnose {
namespace {

constexpr int kSeeds = 5;

RunEvidence evidence(const Planted& planted, uint64_t seed) {
  RunEvidence run = evidence_of(planted.slow, seed);
  if (planted.measure) planted.measure(run);
  return run;
}

double measured_gain(const Planted& planted, uint64_t seed) {
  return seconds_of(play(planted.slow, seed)) / seconds_of(play(planted.repaired, seed)) - 1;
}

class MadeFaults : public ::testing::TestWithParam<MadeFault> {};

TEST_P(MadeFaults, SpeakWithRankSettingAndGain) {
  const MadeFault& fault = GetParam();
  for (const double strength : {0.09, 0.15, 0.4}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Planted planted = fault.plant(strength);
      const Verdict verdict = judge(evidence(planted, seed));
      SCOPED_TRACE(testing::Message() << strength << ", seed " << seed << ": " << verdict.text);
      ASSERT_FALSE(verdict.findings.empty());
      const Finding& found = verdict.findings[0];
      EXPECT_EQ(name_of(found.cause), name_of(fault.cause));
      EXPECT_EQ(found.rank, fault.rank);
      EXPECT_EQ(found.setting.substr(0, std::string(fault.setting).size()), fault.setting);
      EXPECT_EQ(found.setting.empty(), std::string(fault.setting).empty());
      EXPECT_FALSE(found.setting.empty() && found.otherwise.empty());
      EXPECT_EQ(found.gain.has_value(), fault.has_gain);
      const double gain = measured_gain(planted, seed);
      if (fault.has_gain && found.gain) {
        EXPECT_NEAR(found.gain->ratio, gain, 0.25 * gain);
      }
      EXPECT_EQ(verdict.findings.size(), 1u) << "the same time again: " << verdict.also[0];
    }
  }
}

TEST_P(MadeFaults, AreSilentBelowThreePercent) {
  const MadeFault& fault = GetParam();
  if (!fault.has_gain) return;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Verdict verdict = judge(evidence(fault.plant(0.015), seed));
    EXPECT_TRUE(verdict.findings.empty()) << verdict.text;
  }
}

std::string name_of_test(const testing::TestParamInfo<MadeFault>& info) {
  std::string name;
  for (const char c : std::string(info.param.name)) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, MadeFaults, testing::ValuesIn(recorded_faults()), name_of_test);
INSTANTIATE_TEST_SUITE_P(Work, MadeFaults, testing::ValuesIn(work_faults()), name_of_test);
INSTANTIATE_TEST_SUITE_P(Machine, MadeFaults, testing::ValuesIn(machine_faults()), name_of_test);

std::set<std::string> names_of_causes() {
  std::set<std::string> names;
  for (const CauseRow& cause : cause_rows()) names.emplace(cause.name);
  return names;
}

TEST(Causes, EachHasAMadeFault) {
  std::set<std::string> made;
  for (const MadeFault& fault : all_made_faults()) made.emplace(name_of(fault.cause));
  EXPECT_EQ(made, names_of_causes());
}

bool needs(const CauseRow& cause, Quantity quantity) {
  return std::ranges::find(cause.needs, Need(quantity)) != cause.needs.end();
}

TEST(Causes, NeedWhatAVerdictNamesAsMissing) {
  for (const Quantity quantity : measure::all_quantities()) {
    const std::string_view name = measure::row_of(quantity).missing;
    EXPECT_TRUE(name.empty() ||
                std::ranges::any_of(cause_rows(),
                                    [&](const CauseRow& cause) { return needs(cause, quantity); }))
        << name;
  }
}

// So that a row lists all that its cause reads.
TEST(Causes, AreFoundByWhatTheyNeed) {
  for (const MadeFault& fault : all_made_faults()) {
    RunEvidence run = evidence(fault.plant(0.15), 1);
    const std::string found = text_of(judge(run).findings.at(0));
    for (const Quantity quantity : measure::all_quantities()) {
      if (needs(row_of(fault.cause), quantity)) continue;
      for (RankEvidence& rank : run.ranks) rank.values[quantity] = kUnknown;
      for (HostEvidence& host : run.hosts) host.values[quantity] = kUnknown;
    }
    const Verdict verdict = judge(run);
    ASSERT_FALSE(verdict.findings.empty()) << found;
    EXPECT_EQ(text_of(verdict.findings[0]), found);
  }
}

TEST(Causes, AndMetricsAreInTheDocumentsAsInTheTables) {
  for (const char* name : {"diagnosis.md", "metrics.md"}) {
    const std::string text = read_text(std::filesystem::path(DTRAIN_SOURCE) / "docs" / name);
    const std::string made = with_tables(text, [](std::string_view table) {
      return table == "causes" ? cause_table() : monitoring::metric_table(table);
    });
    EXPECT_NE(text.find("<!-- table: "), std::string::npos) << name;
    EXPECT_TRUE(made == text) << name << ": cmake --build build --target document_tables";
  }
}

// Ordinary noise is no cause: of two ranks one is always last.
TEST(HealthyRuns, SayNothing) {
  int alarms = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const MadeRun made{.ranks = 1 + seed % 4,
                       .steps = 60 + seed % 3 * 40,
                       .noise = 0.01 + 0.02 * static_cast<double>(seed / 3 % 3)};
    const Verdict verdict = judge(evidence_of(made, seed));
    if (verdict.findings.empty()) continue;
    ++alarms;
    std::printf("seed %d: %s\n", static_cast<int>(seed), verdict.text.c_str());
  }
  EXPECT_LE(alarms, 1);
}

// Equal processes differ a little for as long as they run.
TEST(HealthyRuns, ARankThatIsALittleSlowerInEveryStepIsNotLate) {
  for (const double slower : {0.035, 0.07}) {
    MadeRun made{.steps = 60};
    made.slow = [slower](size_t rank, size_t, Random&, StepTimes& s) {
      if (rank == 1) s.phases[index_of(Phase::kBackward)] += slower * 0.1;
    };
    const Verdict verdict = judge(evidence_of(made));
    EXPECT_EQ(verdict.findings.size(), slower > 0.05 ? 1u : 0u) << verdict.text;
  }
}

// Sequences of other lengths: a batch takes longer on all ranks.
TEST(HealthyRuns, StepsThatAreLongOnAllRanksMakeNoneLate) {
  MadeRun made{.steps = 60};
  made.slow = [](size_t, size_t step, Random&, StepTimes& s) {
    if (step % 8 != 0) return;
    s.phases[static_cast<size_t>(Phase::kForward)] += 0.020;
    s.phases[static_cast<size_t>(Phase::kBackward)] += 0.040;
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Verdict verdict = judge(evidence_of(made, seed));
    EXPECT_TRUE(verdict.findings.empty()) << verdict.text;
  }
}

// What a GPU is slow for, that its owner cannot change: it is at its own power limit.
TEST(HealthyRuns, AGpuAtItsOwnPowerLimitIsNamedInTheVerdictOnly) {
  RunEvidence run = evidence_of({});
  set_healthy_gpu(run);
  run.ranks[0].values.set(gpu_readings(1.1, 0x4, 350, 350));
  const Verdict verdict = judge(run);
  EXPECT_TRUE(verdict.findings.empty()) << verdict.text;
  EXPECT_NE(verdict.text.find("the GPU runs at its power limit of 350 W"), std::string::npos)
      << verdict.text;
}

TEST(Memory, AJumpIsNoGrowth) {
  RunEvidence run = evidence_of({});
  for (size_t i = 5; i < 10; ++i) run.ranks[0].memory[i].bytes += 3e9;
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
}

TEST(Memory, TheRanksOfAHostFillItTogether) {
  RunEvidence run = evidence_of({.ranks = 4});
  for (RankEvidence& rank : run.ranks) {
    for (MemoryPoint& point : rank.memory) point.bytes += 0.6e6 * point.steps;
  }
  EXPECT_NE(judge(run).text.find("the host runs out of memory in 8333 steps"), std::string::npos)
      << judge(run).text;
  run.ranks.resize(1);
  EXPECT_TRUE(judge(run).findings.empty()) << "one of them alone fits: " << judge(run).text;
}

TEST(Memory, TheSameGlobalBatchInSmallerParts) {
  RunEvidence run = evidence_of({.ranks = 2});
  run.hosts[0].values[Quantity::kFreeMemory] = 1e7;
  run.settings.batch_size = 8;
  EXPECT_EQ(judge(run).findings.at(0).setting, "--batch-size 4 --accumulate 2");
  run.settings.batch_size = 5;
  EXPECT_EQ(judge(run).findings.at(0).setting, "--batch-size 2 --train.global_batch 10");
  run.settings.global_batch = 10;
  EXPECT_EQ(judge(run).findings.at(0).setting, "--batch-size 2 --train.global_batch 10");
  run.settings.batch_size = 1;
  const Finding none = judge(run).findings.back();
  EXPECT_EQ(none.setting + "; " + none.otherwise, "; try a smaller network");
  run.settings.can_checkpoint = true;
  EXPECT_EQ(judge(run).findings.back().setting, "--model.checkpointing true");
}

TEST(Cores, AGpuThatHasWorkDoesNotNoticeThatItsHostWaits) {
  RunEvidence run = evidence_of({.ranks = 2});
  run.settings.gpu = true;
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kRunDelay] = 0.010;
    rank.values[Quantity::kGpuUtilization] = 0.99;
  }
  run.hosts[0].others_cpu = 0.2;
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kGpuUtilization] = 0.85;
  EXPECT_EQ(name_of(judge(run).findings.at(0).cause), "oversubscribed") << judge(run).text;
}

// Four ranks on two cores, and one more process that always wants to run: each of five threads has
// 40 of 100 ms.
TEST(Cores, RanksThatCrowdTheirCoresWaitForEachOtherToo) {
  RunEvidence run = evidence_of({.ranks = 4});
  run.hosts[0].values[Quantity::kHostCores] = run.hosts[0].job_cores = 2;
  run.hosts[0].others_cpu = 0.040;
  run.hosts[0].values[Quantity::kHostIdle] = 0;
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kRunDelay] = 0.060;
  const Verdict crowded = judge(run);
  ASSERT_EQ(crowded.findings.size(), 1u) << "one line for the cause: " << text_of(crowded);
  EXPECT_NE(crowded.text.find("4 ranks have 4 threads of the network on 2 cores, and other "
                              "processes use 0.4 of 2 cores"),
            std::string::npos)
      << crowded.text;
  for (RankEvidence& rank : run.ranks)
    rank.values[Quantity::kRunDelay] = 0.024;  // they wait for each other in few of the steps
  const Verdict shared = judge(run);
  ASSERT_FALSE(shared.findings.empty()) << shared.text;
  EXPECT_NEAR(shared.findings[0].gain->ratio, 0.25, 0.03)
      << "without a fifth of the work: " << shared.text;
}

// One thread on its one core waits for no other.
TEST(Cores, IdleCoresThatTheRanksMayNotUseAreNamed) {
  RunEvidence run = evidence_of({.ranks = 1});
  run.hosts[0].values[Quantity::kHostCores] = 16;
  run.hosts[0].job_cores = 1;
  run.hosts[0].values[Quantity::kHostIdle] = 1.5;
  const Verdict verdict = judge(run);
  ASSERT_EQ(verdict.findings.size(), 1u) << verdict.text;
  EXPECT_FALSE(verdict.findings[0].gain);
  EXPECT_EQ(
      verdict.text.find("verdict: bound to too few cores: the ranks may use 1 of 16 cores, and "),
      0u)
      << verdict.text;
  EXPECT_NE(verdict.text.find("; try with all cores (mpirun --bind-to none"), std::string::npos)
      << verdict.text;
  run.settings.gpu = true;
  EXPECT_TRUE(judge(run).findings.empty()) << "its GPU computes: " << judge(run).text;
  run.settings.gpu = false;
  run.hosts[0].values[Quantity::kHostIdle] = 0.05;
  EXPECT_TRUE(judge(run).findings.empty()) << "others use them: " << judge(run).text;
}

// On the rest of the machine others may run as they like.
TEST(Cores, OthersOnCoresOfTheirOwnTakeNothing) {
  RunEvidence run = evidence_of({});
  run.hosts[0].values[Quantity::kHostCores] = 64;
  run.hosts[0].job_cores = 8;
  run.hosts[0].values[Quantity::kHostIdle] = 0;
  run.hosts[0].others_cpu = 5.6;  // 56 cores, of a step of 0.1 s
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kRunDelay] = 0.01;
    set_side_cpu(rank, 0.1);
  }
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
  run.hosts[0].others_cpu = 6.4;
  EXPECT_EQ(judge(run).findings.at(0).cause, Cause::kOversubscribed);
}

// The thread that communicates waits for the same cores, and all ranks wait for it.
TEST(Cores, OthersDelayTheNetworkToo) {
  RunEvidence run = evidence_of({.network = 0.014});
  run.hosts[0].others_cpu = 0.1;
  run.hosts[0].values[Quantity::kHostIdle] = 0;
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kRunDelay] = 0.01;
  const double without = judge(run).findings.at(0).gain->ratio;
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kCommDelay] = 0.013;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings.at(0).cause, Cause::kOversubscribed) << verdict.text;
  EXPECT_NEAR(verdict.findings.at(0).gain->ratio - without, 0.15, 0.04) << verdict.text;
  EXPECT_EQ(verdict.findings.size(), 1u) << "what is left of the network is what it costs";
}

TEST(Cores, BindingIsNamedOnce) {
  RunEvidence run = evidence_of({});
  run.hosts[0].job_cores = 2;
  run.hosts[0].values[Quantity::kHostIdle] = 0.2;  // 2 of 4 cores
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kRunDelay] = 0.008;
  const Verdict verdict = judge(run);
  EXPECT_EQ(std::ranges::count(verdict.findings, Cause::kBinding, &Finding::cause), 1)
      << verdict.text;
}

// CUDA makes the host wait where it is a thousand kernels ahead: launching then takes as long
// as computing.
TEST(Launches, AGpuThatIsNeverIdleHasNoSmallBatch) {
  RunEvidence run =
      evidence_of({.forward = 0.06, .backward = 0.13, .network = 0.008, .optimizer = 0.008});
  run.settings.gpu = true;
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kGpuUtilization] = 0.99;
    set_launch(rank, 0.18);
  }
  for (const Finding& finding : judge(run).findings)
    EXPECT_NE(finding.cause, Cause::kSmallBatch) << finding.evidence;
}

// One save in 50 steps is by time, and the next one was of the best so far, after an evaluation.
TEST(Checkpoints, ByTimeComeAsOftenAsTheyCame) {
  RunEvidence run = evidence_of({.ranks = 1});
  run.settings.checkpoints = 0.04;  // of both kinds
  for (size_t i = 25; i < 100; i += 50) {
    StepTimes &by_time = run.ranks[0].steps[i], &best = run.ranks[0].steps[i + 20];
    by_time.phases[index_of(Phase::kCheckpoint)] = 0.4;
    best.phases[index_of(Phase::kCheckpoint)] = 0.38;
    best.phases[index_of(Phase::kEval)] = 0.01;
    by_time.wall += 0.4;
    best.wall += 0.39;
  }
  const Finding finding = judge(run).findings.at(0);
  EXPECT_EQ(finding.cause, Cause::kCheckpoint);
  EXPECT_NEAR(finding.gain->ratio, 0.4 / 50 / 0.1, 0.02);
}

TEST(Checkpoints, BeforeTheStepsThatAreKeptCount) {
  RunEvidence run = evidence_of({.ranks = 2});
  run.ended_steps = 2000;
  run.saves = {.count = 2, .seconds = 24};
  run.saves_of_best = {.count = 4, .seconds = 1};
  const Finding by_time = judge(run).findings.at(0);
  EXPECT_EQ(by_time.cause, Cause::kCheckpoint);
  EXPECT_NEAR(by_time.gain->ratio, 0.11, 0.01) << "12 s in 1000 steps of 0.1 s";
  EXPECT_EQ(by_time.evidence.substr(0, 8), "12.0 of ");
  run.settings.saves_by_steps = true;
  run.settings.checkpoints = 1.0 / 2000;
  EXPECT_NEAR(judge(run).findings.at(0).gain->ratio, 0.05, 0.01) << "12 s in 2000 steps";
  run.saves_of_best.seconds = 100;
  const Finding best = judge(run).findings.at(0);
  EXPECT_NE(best.setting.find("--checkpoint.keep_best false"), std::string::npos) << best.setting;
}

// One of the steps that are kept was saved, by steps, though one in 500 is: chance.
TEST(Checkpoints, EvidenceIsOfTheirPlan) {
  RunEvidence run = evidence_of({.ranks = 1});
  run.settings.saves_by_steps = true;
  run.settings.checkpoints = 1.0 / 500;
  run.ranks[0].steps[40].phases[index_of(Phase::kCheckpoint)] = 5;
  run.ranks[0].steps[40].wall += 5;
  const Finding finding = judge(run).findings.at(0);
  EXPECT_EQ(finding.evidence.substr(0, 8), "10.0 of ") << finding.evidence;
  EXPECT_NEAR(finding.gain->ratio, 0.09, 0.01);
}

// Two ranks on two cores, and a process that took 4 ms of a step: they did not wait 9 ms for it,
// whatever they waited.
TEST(Oversubscribed, RanksThatFitDoNotWaitLongerThanOthersRan) {
  RunEvidence run = evidence_of({.ranks = 2});
  for (RankEvidence& rank : run.ranks) {
    rank.values.set({{Quantity::kCores, 1},
                     {Quantity::kComputeThreads, 1},
                     {Quantity::kCpu, 0.1},
                     {Quantity::kComputeCpu, 0.1},
                     {Quantity::kRunDelay, 0.004},
                     {Quantity::kCommDelay, 0.004},
                     {Quantity::kThrottled, 0}});
  }
  run.hosts[0].values[Quantity::kHostCores] = run.hosts[0].job_cores = 2;
  run.hosts[0].others_cpu = 0.004;
  for (const Finding& finding : judge(run).findings) {
    EXPECT_NE(finding.cause, Cause::kOversubscribed)
        << finding.evidence << " " << finding.gain->ratio;
  }
  run.hosts[0].others_cpu = 0.04;
  for (RankEvidence& rank : run.ranks)
    rank.values[Quantity::kRunDelay] = rank.values[Quantity::kCommDelay] = 0.01;
  const Finding finding = judge(run).findings.at(0);
  EXPECT_EQ(finding.cause, Cause::kOversubscribed) << judge(run).text;
}

TEST(LossScale, ThatIsLessThanOneIsNamedThoughFewStepsAreSkipped) {
  RunEvidence run = evidence_of({});
  set_loss_scale(run, 0.5, 0.01);
  const Verdict verdict = judge(run);
  ASSERT_EQ(verdict.findings.size(), 1u) << verdict.text;
  EXPECT_EQ(verdict.findings[0].cause, Cause::kLossScale);
  EXPECT_FALSE(verdict.findings[0].gain);
  run.ranks[0].values[Quantity::kLossScale] = 1;
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
}

// Half of the saves follow an evaluation, because the metric was the best so far: they stay,
// whatever the interval is.
TEST(Checkpoints, OfTheBestDoNotMakeThoseByIntervalCheaper) {
  RunEvidence run = evidence_of({.ranks = 1, .steps = 200});
  for (size_t step = 0; step < 200; step += 10) {
    StepTimes& s = run.ranks[0].steps[step];
    const double saving = step % 20 == 0 ? 0.2 : 0.01;
    s.phases[index_of(Phase::kCheckpoint)] = saving;
    if (step % 20 != 0) s.phases[index_of(Phase::kEval)] = 0.0001;
    s.wall += saving;
  }
  run.settings.checkpoints = 1.0 / 20;
  run.settings.evaluations = 1.0 / 20;
  const Verdict verdict = judge(run);
  ASSERT_FALSE(verdict.findings.empty()) << verdict.text;
  EXPECT_EQ(verdict.findings[0].cause, Cause::kCheckpoint) << verdict.text;
  EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.09, 0.01)
      << "0.2 s in 20 steps of 0.1: " << verdict.text;
}

TEST(LossScale, AFewSkippedStepsAreChance) {
  RunEvidence run = evidence_of({.steps = 30});
  set_loss_scale(run, 1024, 1.0 / 30);
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
}

TEST(Padding, AWindowIsNoLongerThanAnEpoch) {
  RunEvidence run = evidence_of({.ranks = 1});
  for (StepTimes& step : run.ranks[0].steps) step.padded = {.rows = 60, .cells = 100};
  run.settings.steps_per_epoch = 25;
  run.settings.length_window = 8;
  EXPECT_EQ(judge(run).findings.at(0).setting, "--data.length_window 25");
  EXPECT_EQ(judge(run).findings.at(0).otherwise, "");
  run.settings.length_classes = 4;
  EXPECT_EQ(judge(run).findings.at(0).otherwise, "or --data.length_classes 0");
  run.settings.length_window = 32;
  EXPECT_TRUE(judge(run).findings.empty()) << judge(run).text;
}

TEST(Memory, AHostWithoutMoreIsNamed) {
  RunEvidence run = evidence_of({});
  run.hosts[0].values[Quantity::kFreeMemory] = 1e7;
  EXPECT_EQ(judge(run).findings.at(0).cause, Cause::kMemoryFull);
  run.hosts[0].values[Quantity::kFreeMemory] = 1e10;
  run.hosts[0].values[Quantity::kSwappedIn] = 1e6;
  EXPECT_TRUE(judge(run).findings.empty()) << "memory of other processes: " << judge(run).text;
  run.ranks[0].values[Quantity::kMajorFaults] = 3;
  EXPECT_NE(judge(run).text.find("per second come back from swap"), std::string::npos)
      << judge(run).text;
}

}  // namespace
}  // namespace dtrain::diagnose
