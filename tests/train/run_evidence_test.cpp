// What windows of measurements say to the verdict: each field, per optimizer step.

#include "train/run_evidence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::train {
namespace {

using measure::Quantity;
using measure::RankSample;
using measure::StepTimes;
using measure::Values;
using measure::Windows;

// Two windows of 10 and 30 steps, of ranks on these hosts; nothing is used in them.
Windows windows_of(size_t ranks) {
  RankSample idle{.seconds = 1, .steps = 10};
  for (const Quantity quantity : measure::all_quantities()) {
    if (measure::row_of(quantity).kind == measure::QuantityKind::kSum) idle.values[quantity] = 0;
  }
  idle.values.set({{Quantity::kCores, 4}, {Quantity::kHostCores, 4}});
  RankSample later = idle;
  later.steps = 30;
  return {{std::vector<RankSample>(ranks, idle)}, {std::vector<RankSample>(ranks, later)}};
}

diagnose::RunEvidence evidence(const Windows& windows, std::vector<std::string> nodes = {}) {
  const size_t ranks = windows[0].ranks.size();
  if (nodes.empty()) nodes.assign(ranks, "here");
  return evidence_of(std::vector<diagnose::Steps>(ranks, diagnose::Steps(40)), windows, nodes);
}

TEST(RunEvidence, OfALoaderIsPerStepAndOfItsOwnRank) {
  Windows windows = windows_of(2);
  for (size_t i = 0; i < 2; ++i) {
    windows[i].ranks[1].values.set({{Quantity::kSampleBytes, 4000},
                                    {Quantity::kReadSeconds, 2},
                                    {Quantity::kDecodeSeconds, 4},
                                    {Quantity::kAugmentSeconds, 6},
                                    {Quantity::kFewSamples, 50},
                                    {Quantity::kManySamples, 150},
                                    {Quantity::kFewSampleSeconds, 0.02},
                                    {Quantity::kManySampleSeconds, i == 0 ? 0.1 : 0.2},
                                    {Quantity::kLoaderThreads, 3}});
  }
  const diagnose::RunEvidence run = evidence(windows);
  const Values& values = run.ranks[1].values;
  EXPECT_EQ(run.ranks[1].readers(), 3);
  EXPECT_EQ(run.ranks[0].readers(), 1);
  EXPECT_DOUBLE_EQ(values[Quantity::kSampleBytes], 200);
  EXPECT_DOUBLE_EQ(values[Quantity::kReadSeconds], 0.1);
  EXPECT_DOUBLE_EQ(run.ranks[1].service(), 0.6);
  EXPECT_DOUBLE_EQ(values[Quantity::kFewSampleSeconds], 0.02);
  EXPECT_DOUBLE_EQ(values[Quantity::kManySampleSeconds], 0.15);
  EXPECT_FALSE(run.ranks[0].values.knows(Quantity::kFewSampleSeconds)) << "too few samples";
  for (measure::MeasuredWindow& window : windows) window.ranks[1].values[Quantity::kFewSamples] = 2;
  EXPECT_FALSE(evidence(windows).ranks[1].values.knows(Quantity::kFewSampleSeconds));
  windows[0].earlier.resize(2);
  windows[0].earlier[1].add({.steps = 5,
                             .values = {{Quantity::kReadSeconds, 2},
                                        {Quantity::kFewSamples, 16},
                                        {Quantity::kManySamples, 20},
                                        {Quantity::kFewSampleSeconds, 0.07},
                                        {Quantity::kManySampleSeconds, 0.15}}});
  const Values longer = evidence(windows).ranks[1].values;
  EXPECT_DOUBLE_EQ(longer[Quantity::kFewSampleSeconds], (16 * 0.07 + 4 * 0.02) / 20);
  EXPECT_DOUBLE_EQ(longer[Quantity::kManySampleSeconds], 0.15);
  EXPECT_DOUBLE_EQ(longer[Quantity::kReadSeconds], 0.1) << "in the windows alone";
}

// It was measured on the first steps, which are longer or shorter than those of the run.
TEST(RunEvidence, TheHeadroomIsThatOfAMeanStep) {
  const BatchArithmetic batches{.global_batch = 100, .samples = 950, .steps_per_epoch = 10};
  MeasuredSteps headroom{.steps = 4, .samples = 400, .seconds = 4};
  EXPECT_DOUBLE_EQ(cached_step_for(headroom, diagnose::Steps(9), batches), 1) << "full steps alone";
  EXPECT_DOUBLE_EQ(cached_step_for(headroom, diagnose::Steps(20), batches), 0.95);
  headroom.padded.cells = 4 * 1000;
  diagnose::Steps longer(20);
  for (StepTimes& step : longer) step.padded = {.rows = 1000, .cells = 1200};
  EXPECT_DOUBLE_EQ(cached_step_for(headroom, longer, batches), 1.2);
  EXPECT_TRUE(std::isnan(cached_step_for({}, longer, batches)));
}

TEST(RunEvidence, OfCoresIsPerStepAndOfItsOwnRank) {
  Windows windows = windows_of(2);
  for (measure::MeasuredWindow& window : windows) {
    window.ranks[1].values.set({{Quantity::kCpu, 6},
                                {Quantity::kComputeCpu, 4},
                                {Quantity::kComputeThreads, 2},
                                {Quantity::kResident, 1000.0 * window.steps()}});
  }
  const diagnose::RunEvidence run = evidence(windows);
  EXPECT_DOUBLE_EQ(run.ranks[1].values[Quantity::kCpu], 12.0 / 40);
  EXPECT_DOUBLE_EQ(run.ranks[1].side_cpu(), 4.0 / 40);
  EXPECT_EQ(run.ranks[1].compute_threads(), 2);
  EXPECT_EQ(run.ranks[0].compute_threads(), 1);
  EXPECT_EQ(run.ranks[1].values[Quantity::kCores], 4) << "no mask: what the launcher knows";
  ASSERT_EQ(run.ranks[1].memory.size(), 2u);
  EXPECT_EQ(run.ranks[1].memory[1].steps, 40);
  EXPECT_EQ(run.ranks[1].memory[1].bytes, 30000);
  EXPECT_TRUE(run.ranks[0].memory.empty());
}

TEST(RunEvidence, RanksThatMayUseTheSameCoresShareThem) {
  Windows windows = windows_of(3);
  windows[1].ranks[0].allowed_cores[0] = windows[1].ranks[1].allowed_cores[0] = 0b0011;
  windows[1].ranks[2].allowed_cores[0] = 0b1100;
  for (measure::MeasuredWindow& window : windows) {
    for (RankSample& rank : window.ranks)
      rank.values[Quantity::kThrottled] = 8;  // of their one group
  }
  const diagnose::RunEvidence run = evidence(windows);
  EXPECT_EQ(run.ranks[0].values[Quantity::kCores], 1);
  EXPECT_EQ(run.ranks[1].values[Quantity::kCores], 1);
  EXPECT_EQ(run.ranks[2].values[Quantity::kCores], 2);
  EXPECT_EQ(run.hosts[0].job_cores, 4);
  EXPECT_DOUBLE_EQ(run.ranks[0].values[Quantity::kThrottled], 16.0 / 40 / 4)
      << "of each core that the group ran on";
}

// A limit of two cores on a machine with many: threads were stopped on as many cores as there
// are threads.
TEST(RunEvidence, AGroupRunsOnNoMoreCoresThanItHasThreads) {
  Windows windows = windows_of(1);
  for (measure::MeasuredWindow& window : windows) {
    window.ranks[0].allowed_cores[0] = ~uint64_t{0};
    window.ranks[0].values.set(
        {{Quantity::kThrottled, 8}, {Quantity::kComputeThreads, 3}, {Quantity::kLoaderThreads, 2}});
  }
  EXPECT_DOUBLE_EQ(evidence(windows).ranks[0].values[Quantity::kThrottled], 16.0 / 40 / 5);
}

TEST(RunEvidence, OfAHostIsWhatItsRanksDidNotUse) {
  Windows windows = windows_of(3);
  for (measure::MeasuredWindow& window : windows) {
    for (RankSample& rank : window.ranks) rank.values[Quantity::kCpu] = 4;
    // As the first rank of a host saw it.
    window.ranks[0].values.set({{Quantity::kHostBusy, 10},
                                {Quantity::kHostIdle, 6},
                                {Quantity::kHostSteal, 1},
                                {Quantity::kFreeMemory, 5000}});
    window.ranks[2].values.set({{Quantity::kHostBusy, 4}, {Quantity::kHostCores, 8}});
  }
  const diagnose::RunEvidence run = evidence(windows, {"a", "a", "b"});
  ASSERT_EQ(run.hosts.size(), 2u);
  const diagnose::HostEvidence &a = run.hosts[0], &b = run.hosts[1];
  EXPECT_EQ(run.ranks[1].host, 0);
  EXPECT_EQ(run.ranks[2].host, 1);
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(a.values[Quantity::kHostCores], 4);
  EXPECT_EQ(b.values[Quantity::kHostCores], 8);
  EXPECT_DOUBLE_EQ(a.others_cpu, 2 * (10 - 8) / 40.0);
  EXPECT_DOUBLE_EQ(b.others_cpu, 0);
  EXPECT_DOUBLE_EQ(a.values[Quantity::kHostIdle], 12.0 / 40);
  EXPECT_DOUBLE_EQ(a.values[Quantity::kHostSteal], 2.0 / 40);
  EXPECT_EQ(a.values[Quantity::kFreeMemory], 5000);
}

TEST(RunEvidence, WhatCountsUpIsKnownSinceTheFirstWindow) {
  Windows windows = windows_of(1);
  windows[0].ranks[0].values[Quantity::kSkippedSteps] = 4;
  windows[1].ranks[0].values.set({{Quantity::kSkippedSteps, 10}, {Quantity::kLossScale, 0.5}});
  const Values values = evidence(windows).ranks[0].values;
  EXPECT_DOUBLE_EQ(values[Quantity::kSkippedSteps], 6.0 / 30);
  EXPECT_EQ(values[Quantity::kLossScale], 0.5);
}

// One window of all the steps between two logging steps, and what is known of those before it.
TEST(RunEvidence, OneWindowBeginsWhereThoseBeforeItEnded) {
  Windows windows = windows_of(1);
  windows.pop_front();
  windows[0].ranks[0].values.set({{Quantity::kResident, 5e9},
                                  {Quantity::kAllocatorRetries, 9},
                                  {Quantity::kSkippedSteps, 16}});
  EXPECT_FALSE(evidence(windows).ranks[0].values.knows(Quantity::kSkippedSteps))
      << "it may be of the warm-up";
  measure::EarlierWindows& earlier = windows[0].earlier.emplace_back();
  earlier.add({.steps = 100,
               .values = {{Quantity::kResident, 1e9},
                          {Quantity::kAllocatorRetries, 3},
                          {Quantity::kSkippedSteps, 4}}});
  const diagnose::RunEvidence run = evidence(windows);
  EXPECT_DOUBLE_EQ(run.ranks[0].values[Quantity::kSkippedSteps], 12.0 / 30);
  EXPECT_DOUBLE_EQ(run.ranks[0].values[Quantity::kAllocatorRetries], 6.0 / 30);
  ASSERT_EQ(run.ranks[0].memory.size(), 2u) << "and what there is now";
  EXPECT_EQ(run.ranks[0].memory[1].steps, 130);
  EXPECT_EQ(run.ranks[0].memory[1].bytes, 5e9);
}

TEST(RunEvidence, WithoutAWindowOnlyTheStepsAreKnown) {
  const diagnose::RunEvidence run = evidence_of({diagnose::Steps(7)}, {}, {"here"});
  EXPECT_EQ(run.ranks.at(0).steps.size(), 7u);
  EXPECT_TRUE(std::isnan(run.ranks[0].values[Quantity::kRunDelay]));
  EXPECT_TRUE(std::isnan(run.hosts.at(0).others_cpu));
  EXPECT_TRUE(std::isnan(run.ranks[0].values[Quantity::kWorkingSmClock]));
}

}  // namespace
}  // namespace dtrain::train
