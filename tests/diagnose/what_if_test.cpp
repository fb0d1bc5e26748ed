#include "diagnose/what_if.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;

constexpr size_t at(Phase phase) { return static_cast<size_t>(phase); }

// Two parts before the gradients meet, the wait, one part after it, and what no phase covers.
StepTimes step(double data, double backward, double wait, double optimizer, double other = 0) {
  StepTimes s;
  s.phases[at(Phase::kDataWait)] = data;
  s.phases[at(Phase::kBackward)] = backward;
  s.phases[at(Phase::kAllReduceWait)] = wait;
  s.phases[at(Phase::kOptimizer)] = optimizer;
  s.wall = s.in_phases() + other;
  return s;
}

Change without(Phase phase) {
  return [phase](size_t, size_t, StepTimes& s) { s.phases[at(phase)] = 0; };
}

Gain gain_of(const std::vector<Steps>& ranks, const Change& change, double network = 1) {
  return diagnose::gain_of(ranks, WhatIf{.change = change, .network = network});
}

TEST(WhatIf, ACycleEndsWhenTheGradientsHaveMet) {
  const auto cycles = cycles_of({{step(1, 2, 3, 4, 5), step(10, 20, 30, 40, 50)}});
  ASSERT_EQ(cycles[0].size(), 1u);
  EXPECT_DOUBLE_EQ(cycles[0][0].own, 4 + 5 + 10 + 20);
  EXPECT_DOUBLE_EQ(cycles[0][0].wait, 30);
}

TEST(WhatIf, TheNetworkIsTheLeastWait) {
  const auto cycles =
      cycles_of({{step(0, 1, 9, 0), step(0, 1, 5, 0)}, {step(0, 1, 9, 0), step(0, 4, 2, 0)}});
  EXPECT_EQ(network_seconds(cycles), std::vector<double>{2});
}

TEST(WhatIf, ALoneRankGainsWhatItSaves) {
  const std::vector<Steps> one = {Steps(21, step(3, 6, 0, 1))};
  const Gain gain = gain_of(one, without(Phase::kDataWait));
  EXPECT_NEAR(gain.ratio, 10.0 / 7 - 1, 1e-12);
  EXPECT_NEAR(gain.error, 0, 1e-12) << "all steps are equal";
}

// Rank 1 is late by 2 s because of its data; rank 0 waits for it. One second is the network.
TEST(WhatIf, TimeThatNoRankWaitsForGainsNothing) {
  const std::vector<Steps> ranks = {Steps(21, step(1, 5, 3, 1)), Steps(21, step(3, 5, 1, 1))};
  const auto only = [](size_t chosen) {
    return [chosen](size_t rank, size_t, StepTimes& s) {
      if (rank == chosen) s.phases[at(Phase::kDataWait)] = 0;
    };
  };
  EXPECT_NEAR(gain_of(ranks, only(0)).ratio, 0, 1e-12);
  EXPECT_NEAR(gain_of(ranks, only(1)).ratio, 10.0 / 8 - 1, 1e-12)
      << "then rank 0, with its own second, is last";
  EXPECT_NEAR(gain_of(ranks, without(Phase::kDataWait)).ratio, 10.0 / 7 - 1, 1e-12);
  EXPECT_NEAR(gain_of(ranks, {}, 0.5).ratio, 10 / 9.5 - 1, 1e-12);
  EXPECT_NEAR(gain_of(ranks, without(Phase::kOptimizer)).ratio, 10.0 / 9 - 1, 1e-12);
}

// Every second step one rank is late, in turn: the mean of each rank hides it, the steps do not.
TEST(WhatIf, RotatingLatenessIsSeen) {
  std::vector<Steps> ranks(2);
  for (int i = 0; i < 41; ++i) {
    ranks[i % 2].push_back(step(4, 5, 0, 1));
    ranks[1 - i % 2].push_back(step(0, 5, 4, 1));
  }
  EXPECT_NEAR(gain_of(ranks, without(Phase::kDataWait)).ratio, 10.0 / 6 - 1, 1e-12);
}

// A checkpoint on rank 0 delays the meeting of the next step.
TEST(WhatIf, WhatFollowsAStepDelaysTheNextOne) {
  std::vector<Steps> ranks(2);
  for (int i = 0; i < 21; ++i) {
    StepTimes saves = step(0, 5, 0, 1);
    saves.phases[at(Phase::kCheckpoint)] = 4;
    saves.wall += 4;
    ranks[0].push_back(saves);
    ranks[1].push_back(step(0, 5, 4, 1));
  }
  EXPECT_NEAR(gain_of(ranks, without(Phase::kCheckpoint)).ratio, 10.0 / 6 - 1, 1e-12);
}

TEST(WhatIf, TheErrorIsThatOfTheMeanGain) {
  Steps steps;
  for (int i = 0; i < 401; ++i)
    steps.push_back(step(i % 10 < 5 ? 2 : 0, 9, 0, 0));  // waves of ten steps
  const Gain even = gain_of({steps}, without(Phase::kDataWait));
  EXPECT_NEAR(even.ratio, 1.0 / 9, 1e-3);
  EXPECT_LT(even.error, 0.002) << "every block has whole waves";
  Steps one_burst(401, step(0, 9, 0, 0));
  for (size_t i = 0; i < 20; ++i) one_burst[i] = step(20, 9, 0, 0);
  const Gain burst = gain_of({one_burst}, without(Phase::kDataWait));
  EXPECT_GT(burst.ratio, 0.1);
  EXPECT_GT(burst.error, burst.ratio / 2) << "one burst says nothing about the next steps";
}

TEST(WhatIf, TooFewStepsSayNothing) {
  EXPECT_EQ(gain_of({{step(1, 1, 0, 0)}}, without(Phase::kDataWait)).ratio, 0);
  EXPECT_EQ(gain_of({}, without(Phase::kDataWait)).ratio, 0);
  EXPECT_TRUE(std::isinf(gain_of({Steps(3, step(1, 1, 0, 0))}, without(Phase::kDataWait)).error));
}

}  // namespace
}  // namespace dtrain::diagnose
