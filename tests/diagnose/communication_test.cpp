#include "diagnose/communication.h"

#include <gtest/gtest.h>

#include "diagnose/made_run.h"

namespace dtrain::diagnose {
namespace {

const NetworkUse kNetwork = {.latency = 1, .seconds_per_byte = 0.1};
// Half of 80 bytes is ready after 10 s of 40.
const Readiness kReady = {.bytes = {40, 80}, .seconds = {10, 40}};

std::vector<double> equal(size_t count) {
  return std::vector<double>(count, 80.0 / static_cast<double>(count));
}

TEST(Communication, ReadinessIsAStraightLineBetweenWhatWasMeasured) {
  EXPECT_DOUBLE_EQ(kReady.at(20), 5);
  EXPECT_DOUBLE_EQ(kReady.at(40), 10);
  EXPECT_DOUBLE_EQ(kReady.at(60), 25);
  EXPECT_DOUBLE_EQ(kReady.at(100), 40) << "padding between buckets";
  EXPECT_EQ(Readiness{}.at(7), 0);
}

TEST(Communication, AMessageTravelsWhenItIsReadyAndTheOneBeforeHasArrived) {
  const Exposed one = exposed(equal(1), kNetwork, kReady);
  EXPECT_DOUBLE_EQ(one.latency, 1);
  EXPECT_DOUBLE_EQ(one.transfer, 8);
  const Exposed two = exposed(equal(2), kNetwork, kReady);  // the first: from 10 to 15
  EXPECT_DOUBLE_EQ(two.latency, 1);
  EXPECT_DOUBLE_EQ(two.transfer, 4);
  EXPECT_NEAR(exposed(equal(80), kNetwork, kReady).total(), 0.25 + 80 * 1.1 - 40, 1e-9)
      << "this number of messages falls behind from the first one on";
}

TEST(Communication, WhatCannotBeHiddenIsSplitAtTheEndOfBackward) {
  const NetworkUse slow = {.latency = 20, .seconds_per_byte = 0.5};
  const Exposed two = exposed(equal(2), slow, kReady);  // 10 to 30 to 50, and 50 to 70 to 90
  EXPECT_DOUBLE_EQ(two.latency, 20);
  EXPECT_DOUBLE_EQ(two.transfer, 10 + 20);
  const Exposed none = exposed(equal(2), slow, {});
  EXPECT_DOUBLE_EQ(none.latency, 40) << "nothing is known of backward: all is exposed";
  EXPECT_DOUBLE_EQ(none.transfer, 40);
}

// Rank 1 is late by 30 ms; the network takes 20 ms.
RunEvidence late_and_slow() {
  RunEvidence run = healthy_run(2);
  for (RankEvidence& rank : run.ranks) {
    for (StepTimes& step : rank.steps) {
      step = {};
      const bool late = &rank == &run.ranks[1];
      step.phases[index_of(Phase::kBackward)] = late ? 0.080 : 0.050;
      step.phases[index_of(Phase::kAllReduceWait)] = late ? 0.020 : 0.050;
      step.wall = step.in_phases();
      step.buckets = {0.040, 0.040, 0.040};
    }
  }
  run.network = {
      .latency = 2e-3, .seconds_per_byte = 1e-9, .messages = 1, .bytes = 8e6, .plan = {25, {8e6}}};
  return run;
}

TEST(Communication, EachSecondIsCountedOnce) {
  RunEvidence run = late_and_slow();
  Communication split = communication_of(run);
  EXPECT_NEAR(split.late, 0.015, 1e-9) << "30 ms of one of two ranks";
  EXPECT_NEAR(split.latency, 0.002, 1e-9);
  EXPECT_NEAR(split.transfer, 0.008, 1e-9);
  EXPECT_NEAR(split.overlap, 0, 1e-9);
  EXPECT_NEAR(split.other, 0.010, 1e-9) << "twice what it costs when nothing else runs";
  EXPECT_NEAR(split.network(), 0.020, 1e-9);

  run.network.others = {{2, {2e6, 2e6, 2e6, 2e6}}, {1, {1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6}}};
  split = communication_of(run);
  EXPECT_EQ(split.best_mebibytes, 1);
  EXPECT_NEAR(split.overlap, 0.007, 1e-9) << "a last message of 1 MB takes 3 ms";
  EXPECT_NEAR(split.latency + split.transfer, 0.003, 1e-9);
  EXPECT_NEAR(split.network(), 0.020, 1e-9);
}

TEST(Communication, AFastNetworkTakesNoMoreThanWasMeasured) {
  RunEvidence run = late_and_slow();
  run.network.latency = 0.1;  // as if the probe had met a busy machine
  const Communication split = communication_of(run);
  EXPECT_NEAR(split.network(), 0.020, 1e-9);
  EXPECT_NEAR(split.other, 0, 1e-12);
  EXPECT_NEAR(split.latency / split.transfer, 0.1 / 0.008, 1e-6);
}

// Buckets that would hide all of a cost that is not there hide as large a part of what was waited.
TEST(Communication, ABusyProbePromisesNoMoreThanItsPart) {
  RunEvidence run = late_and_slow();
  run.network = {
      .latency = 0, .seconds_per_byte = 1e-7, .messages = 1, .bytes = 8e6, .plan = {25, {8e6}}};
  run.network.others = {{4, {4e6, 4e6}}};
  for (RankEvidence& rank : run.ranks) {
    for (StepTimes& step : rank.steps) step.buckets = {0.400, 0.400, 0.400};
  }
  const Communication split = communication_of(run);
  EXPECT_NEAR(split.overlap, 0.020 * 0.2 / 0.8, 1e-9) << "200 ms of 800 ms would be hidden";
  EXPECT_NEAR(split.network(), 0.020, 1e-9);
}

TEST(Communication, WithoutAProbeOnlyLatenessIsKnown) {
  RunEvidence run = late_and_slow();
  run.network = {};
  const Communication split = communication_of(run);
  EXPECT_NEAR(split.late, 0.015, 1e-9);
  EXPECT_NEAR(split.other, 0.020, 1e-9);
  EXPECT_EQ(communication_of(healthy_run(1)).network(), 0);
}

TEST(Communication, ReadinessIsTheMeanOfAllRanks) {
  RunEvidence run = healthy_run(2, 3);
  EXPECT_FALSE(readiness_of(run).known());
  run.network.plan = {4, {10, 20, 30, 40}};
  EXPECT_FALSE(readiness_of(run).known());
  for (StepTimes& step : run.ranks[0].steps) step.buckets = {1, 2, 4};
  for (StepTimes& step : run.ranks[1].steps) step.buckets = {3, 4, 6};
  run.ranks[1].steps[1].buckets = {};  // it had no samples
  const Readiness ready = readiness_of(run);
  EXPECT_EQ(ready.bytes, (std::vector<double>{10, 60, 100})) << "first, third and last of four";
  EXPECT_DOUBLE_EQ(ready.seconds[0], (3 * 1 + 2 * 3) / 5.0);
  EXPECT_DOUBLE_EQ(ready.seconds[2], (3 * 4 + 2 * 6) / 5.0);
}

}  // namespace
}  // namespace dtrain::diagnose
