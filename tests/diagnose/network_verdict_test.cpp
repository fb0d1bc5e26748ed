// What a verdict says of runs whose ranks wait for their gradients.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "diagnose/made_faults.h"
#include "diagnose/means.h"
#include "diagnose/verdict.h"

namespace dtrain::diagnose {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NetworkVerdict, AllRanksThatWaitForGradientsAreBoundByTheNetwork) {
  RunEvidence run = evidence_of({.ranks = 3, .network = 0.060});
  run.network = {.latency = 20e-3, .seconds_per_byte = 1e-10, .messages = 3, .bytes = 4e6};
  Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kLatency);
  EXPECT_THAT(verdict.text,
              ContainsRegex(
                  "all ranks wait 6[01]\\.. of 15[7-9]\\.. ms for gradients, 3 messages cost 60.4 "
                  "ms when no rank is late"));
  EXPECT_THAT(verdict.text, HasSubstr("% with --accumulate 2"));
  run.network = {.latency = 20e-6, .seconds_per_byte = 1e-8, .messages = 3, .bytes = 6e6};
  EXPECT_EQ(cause_of(run), Cause::kBandwidth);
  run.network = {};
  verdict = judge(run);
  EXPECT_THAT(verdict.not_measured, Contains("the network's own cost"));
  EXPECT_THAT(
      text_of(verdict),
      HasSubstr("\n  not measured: copy and kernel launches: no GPU clock; the network's own"));
}

// One bucket of 32 MB leaves at the end of 60 ms of backward and takes 32 ms; of buckets of 8 MB
// only the last one is still on its way then.
TEST(NetworkVerdict, BucketsThatWouldTravelDuringBackward) {
  RunEvidence run = evidence_of({.ranks = 2, .network = 0.032});
  for (RankEvidence& rank : run.ranks) {
    for (StepTimes& step : rank.steps) step.buckets = {0.060, 0.060, 0.060};
    rank.values[Quantity::kCores] = 1;
  }
  run.network = {.latency = 20e-6,
                 .seconds_per_byte = 1e-9,
                 .messages = 1,
                 .bytes = 32e6,
                 .plan = {25, {32e6}}};
  run.network.others = {{8, {8e6, 8e6, 8e6, 8e6}}, {16, {16e6, 16e6}}};
  EXPECT_EQ(cause_of(run), Cause::kBandwidth) << "no core is free to send meanwhile";
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kCores] = 2;
  EXPECT_EQ(cause_of(run), Cause::kOverlap);
  EXPECT_THAT(judge(run).text, ContainsRegex("^verdict: poor overlap: 24.0 of 1[23][0-9]\\.. ms "
                                             "waiting for gradients that could be sent "
                                             "during backward; .2[2-4] % with --dist.bucket_mb 8"));
}

// What is done once per step is halved by twice the micro-steps, promised once, and named for the
// larger part.
TEST(NetworkVerdict, NetworkAndOptimizerAreOneFinding) {
  RunEvidence run = evidence_of({.ranks = 2, .network = 0.020, .optimizer = 0.010});
  Verdict verdict = judge(run);
  ASSERT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kNetwork)
      << "it takes far more than the messages cost";
  EXPECT_THAT(verdict.text, HasSubstr("verdict: communication-bound: all ranks wait "));
  run.network.seconds_per_byte = 4.5e-9;
  verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kBandwidth);
  const double step = mean_wall(run.ranks[0].steps);
  EXPECT_NEAR(step / (1 + verdict.findings[0].gain->ratio), step - 0.5 * (0.020 + 0.010), 0.001);
  EXPECT_THAT(verdict.text, HasSubstr(" ms in the optimizer; +"));

  run = evidence_of({.ranks = 2, .network = 0.010, .optimizer = 0.020});
  verdict = judge(run);
  ASSERT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kOptimizer);
  EXPECT_THAT(verdict.text,
              ContainsRegex("optimizer-bound: .* ms in the optimizer, (9|10)\\.. ms for gradients; "
                            ".1. % with --accumulate 2"));
}

// Bytes that travel between hosts or GPUs can be halved without another global batch.
TEST(NetworkVerdict, GradientsThatTravelFarMayBeNarrower) {
  RunEvidence run = evidence_of({.ranks = 2, .network = 0.040, .optimizer = 0.010});
  run.network = {.latency = 20e-6, .seconds_per_byte = 1e-9, .messages = 2, .bytes = 36e6};
  EXPECT_THAT(judge(run).text, HasSubstr("with --accumulate 2")) << "in the memory of one host";
  run.hosts.push_back(run.hosts[0]);
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kBandwidth);
  EXPECT_THAT(verdict.text,
              HasSubstr("with --dist.wire bf16 (gradients are rounded to bfloat16 between ranks)"));
  const double step = mean_wall(run.ranks[0].steps);
  EXPECT_NEAR(step / (1 + verdict.findings[0].gain->ratio), step - 0.5 * 0.036, 0.002);
  run.settings.narrow_wire = true;
  EXPECT_THAT(judge(run).text, HasSubstr("with --accumulate 2")) << "they are already";
  run.settings.narrow_wire = false;
  run.network.latency = 20e-3;
  run.network.seconds_per_byte = 1e-11;
  EXPECT_THAT(judge(run).text, HasSubstr("with --accumulate 2")) << "fewer bytes do not help";
}

// A given global batch decides how many micro-steps there are.
TEST(NetworkVerdict, AGivenGlobalBatchIsWhatToChange) {
  RunEvidence run = evidence_of({.ranks = 2, .network = 0.020, .optimizer = 0.010});
  run.settings.global_batch = 128;
  EXPECT_THAT(judge(run).text, HasSubstr("with --train.global_batch 256"));
}

// A probe that met a busy machine is no evidence, and promises nothing.
TEST(NetworkVerdict, ACostThatNoRankWaitedForIsNotNamed) {
  RunEvidence run = evidence_of({.ranks = 2, .network = 0.030});
  run.network = {.latency = 3, .seconds_per_byte = 1e-10, .messages = 2, .bytes = 4e6};
  EXPECT_THAT(judge(run).text, Not(HasSubstr("messages cost")));
  EXPECT_THAT(judge(run).text, HasSubstr("for gradients"));
}

TEST(NetworkVerdict, WhereTheTimeOfCommunicationWentIsKept) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 1, Phase::kBackward, 0.030);
  const auto record = record_of(judge(run), 7).communication;
  EXPECT_NEAR(record.late, 0.015, 0.002);
  EXPECT_NEAR(record.latency + record.bandwidth + record.not_overlapped + record.other, 0.002,
              0.001);
  EXPECT_TRUE(std::isnan(record_of(judge(healthy_run(1)), 7).communication.late));
}

TEST(NetworkVerdict, WhatWasMeasuredBeforeTrainingIsKept) {
  RunEvidence run = healthy_run(2);
  run.cached_step = 0.008;
  run.network.latency = 25e-6;
  run.network.seconds_per_byte = 3e-10;
  const auto probes = record_of(judge(run), 7).probes;
  EXPECT_EQ(probes.cached_step, 0.008);
  EXPECT_EQ(probes.latency, 25e-6);
  EXPECT_EQ(probes.seconds_per_byte, 3e-10);
  run.ranks[0].steps.clear();
  EXPECT_EQ(record_of(judge(run), 7).probes.cached_step, 0.008) << "it needs no steps";
  EXPECT_TRUE(std::isnan(record_of(judge({}), 7).probes.cached_step));
}

}  // namespace
}  // namespace dtrain::diagnose
