#include "measure/run_measurements.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/thread_world.h"

namespace dtrain::measure {
namespace {

StepTimes step(double forward, double wall) {
  StepTimes s;
  s.phases[static_cast<size_t>(Phase::kForward)] = forward;
  s.wall = wall;
  return s;
}

std::vector<StepTimes> steps(int rank, int begin, int end) {
  std::vector<StepTimes> all;
  for (int i = begin; i < end; ++i) all.push_back(step(100 * rank + i, 1000));
  return all;
}

RankSample used(int rank) {
  return {.seconds = 1,
          .values = {{Quantity::kSamples, 12},
                     {Quantity::kFewSamples, 3},
                     {Quantity::kManySamples, 9},
                     {Quantity::kCpu, 10.0 + rank},
                     {Quantity::kFreeMemory, 1e9},
                     {Quantity::kQueue, 0.5}}};
}

TEST(RunMeasurements, RankZeroKnowsTheStepsOfAllRanksAfterWarmUp) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    measured.gather(steps(comm.rank(), 0, 3), used(comm.rank()));  // warm-up
    EXPECT_TRUE(measured.last().empty());
    EXPECT_EQ(measured.own()->values[Quantity::kSamples], 4)
        << "what was used counts from the first step on";
    measured.gather(steps(comm.rank(), 3, 7), used(comm.rank()));  // two of warm-up
    measured.gather({}, used(comm.rank()));  // a logging step right after another
    measured.gather(steps(comm.rank(), 7, 10), used(comm.rank()));
    if (comm.rank() != 0) {
      EXPECT_TRUE(measured.steps().empty());
      EXPECT_TRUE(measured.last().empty());
      return;
    }
    ASSERT_EQ(measured.steps().size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      const Steps& of_rank = measured.steps()[static_cast<size_t>(rank)];
      ASSERT_EQ(of_rank.size(), 5u);
      for (int i = 0; i < 5; ++i)
        EXPECT_EQ(of_rank[static_cast<size_t>(i)].of(Phase::kForward), 100 * rank + 5 + i);
      const RankMeans& last = measured.last()[static_cast<size_t>(rank)];
      EXPECT_EQ(last.rank, rank);
      EXPECT_EQ(last.times.of(Phase::kForward), 100 * rank + 8);
      EXPECT_EQ(last.times.wall, 1000);
      EXPECT_EQ(last.values[Quantity::kSamples], 4) << "per step";
      EXPECT_DOUBLE_EQ(last.values[Quantity::kCpu], (10.0 + rank) / 3) << "per step";
      EXPECT_TRUE(std::isnan(last.values[Quantity::kRunDelay])) << "not measured";
      EXPECT_EQ(last.values[Quantity::kFreeMemory], 1e9) << "now";
      EXPECT_EQ(last.values[Quantity::kQueue], 0.5) << "a mean";
    }
    ASSERT_EQ(measured.windows().size(), 1u) << "not those in which the warm-up was";
    EXPECT_EQ(measured.windows()[0].steps(), 3);
    EXPECT_EQ(measured.windows()[0].ranks[2].values[Quantity::kCpu], 12);
  });
}

TEST(RunMeasurements, OfVeryManyRanksThoseAreShownThatTheOthersWaitFor) {
  dist::run_thread_world(65, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    std::vector<StepTimes> own(10);
    for (StepTimes& s : own)
      s.phases[static_cast<size_t>(Phase::kAllReduceWait)] = (comm.rank() * 7) % 65;
    measured.gather(own, used(comm.rank()));
    if (comm.rank() != 0) return;
    std::vector<double> waits;
    for (const RankMeans& rank : measured.last())
      waits.push_back(rank.times.of(Phase::kAllReduceWait));
    EXPECT_EQ(waits, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  });
}

TEST(RunMeasurements, ResourcesAreOfAllStepsThoughFewTimesAreKept) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    measured.gather(steps(0, 0, 5), used(0));
    RankSample resources = used(0);
    resources.steps = 24;
    measured.gather(steps(0, 5, 8), resources);
    EXPECT_EQ(measured.windows().at(0).steps(), 24);
    EXPECT_EQ(measured.last().at(0).values[Quantity::kSamples], 0.5) << "12 in 24 steps";
  });
}

// In the 3rd of 5 steps rank 1 reads long, and the others wait for it; after the 4th one rank
// 0 saves.
TEST(RunMeasurements, KnowsTheSlowestStepAndItsRank) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    measured.gather(std::vector<StepTimes>(RunMeasurements::kWarmUpSteps, step(1, 1)),
                    used(comm.rank()));
    EXPECT_FALSE(measured.slowest(5)) << "warm-up";
    std::vector<StepTimes> own(5, step(1, 1));
    const bool late = comm.rank() == 1;
    own[2].wall = 4;
    own[2].phases[static_cast<size_t>(late ? Phase::kDataWait : Phase::kAllReduceWait)] = 3;
    if (comm.rank() == 0) {
      own[3].wall = 3.5;
    } else {  // waits for it in the next step
      own[4].wall = 3.5;
      own[4].phases[static_cast<size_t>(Phase::kAllReduceWait)] = 2.5;
    }
    measured.gather(own, used(comm.rank()));
    const auto slowest = measured.slowest(10);
    ASSERT_EQ(slowest.has_value(), comm.rank() == 0);
    if (!slowest) return;
    EXPECT_EQ(slowest->step, 8);
    EXPECT_EQ(slowest->rank, 1);
    EXPECT_EQ(slowest->times.wall, 4);
    EXPECT_EQ(slowest->times.of(Phase::kDataWait), 3);
    EXPECT_EQ(measured.slowest(110)->step, 108);
  });
  dist::run_thread_world(2, [](dist::Communicator& comm) {  // all ranks wait for the network
    RunMeasurements measured(comm);
    std::vector<StepTimes> own(RunMeasurements::kWarmUpSteps + 4, step(1, 1));
    own[6].wall = 2;
    own[6].phases[static_cast<size_t>(Phase::kAllReduceWait)] = 1;
    measured.gather(own, used(comm.rank()));
    const auto slowest = measured.slowest(9);
    EXPECT_EQ(slowest ? slowest->step : -1, comm.rank() == 0 ? 7 : -1);
    measured.gather({}, used(comm.rank()));
    EXPECT_FALSE(measured.slowest(9)) << "no step has ended";
  });
}

// A GPU is read every few seconds, so most windows have no reading, and one reading stands for many
// of them.
TEST(RunMeasurements, EnergyIsThatOfTheStepsAndNotOfTheReading) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    RankSample sample = used(0);
    sample.seconds = 0.2;
    sample.values[Quantity::kGpuEnergy] = 300;  // watts
    measured.gather(steps(0, 0, 10), sample);
    EXPECT_DOUBLE_EQ(measured.own()->values[Quantity::kGpuEnergy], 300 * 0.02)
        << "300 W in a step of 20 ms";
    measured.gather(steps(0, 10, 20), used(0));
    EXPECT_TRUE(std::isnan(measured.own()->values[Quantity::kGpuEnergy]));
  });
}

// Of many windows, evenly spaced ones, so that slow growth is seen over the whole run.
TEST(RunMeasurements, MemoryIsKeptOfTheWholeRun) {
  MemoryCurve memory;
  RankSample sample = used(0);
  for (int i = 1; i <= 10000; ++i) {
    sample.steps = 10;
    sample.values[Quantity::kResident] = 1000.0 * i;
    memory.add(sample);
  }
  EXPECT_EQ(memory.steps, 100000);
  ASSERT_GE(memory.points.size(), 30u);
  ASSERT_LT(memory.points.size(), 64u);
  EXPECT_LT(memory.points.front().steps, 2000);
  EXPECT_GT(memory.points.back().steps, 95000);
  for (size_t i = 0; i < memory.points.size(); ++i) {
    EXPECT_EQ(memory.points[i].bytes, 100 * memory.points[i].steps);
    if (i == 0) continue;
    EXPECT_NEAR(memory.points[i].steps - memory.points[i - 1].steps, 2500, 1000);
  }
}

TEST(RunMeasurements, WhatWasUsedAfterTheStepsIsNotTheirs) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    measured.gather(steps(comm.rank(), 0, 5), used(comm.rank()));
    measured.gather(steps(comm.rank(), 5, 10), used(comm.rank()));
    measured.gather(steps(comm.rank(), 10, 13), used(comm.rank()), /*of_steps_alone=*/false);
    if (comm.rank() != 0) return;
    EXPECT_EQ(measured.windows().size(), 1u);
    EXPECT_EQ(measured.steps()[0].size(), 8u);
  });
}

TEST(RunMeasurements, OnlyTheNewestStepsAreKept) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    RunMeasurements measured(comm);
    for (int i = 0; i < 40; ++i) measured.gather(steps(0, 100 * i, 100 * (i + 1)), used(0));
    ASSERT_EQ(measured.steps()[0].size(), 500u);
    EXPECT_EQ(measured.steps()[0].back().of(Phase::kForward), 3999);
    // Of the 40 windows, the first has the end of the warm-up in it and 5 are kept.
    ASSERT_EQ(measured.windows().size(), 5u);
    EXPECT_EQ(measured.windows().front().earlier.at(0).total.sum(Quantity::kFewSamples), 34 * 3);
    EXPECT_EQ(measured.windows().front().earlier.at(0).total.sum(Quantity::kSamples), 34 * 12);
    EXPECT_EQ(measured.windows().front().earlier.at(0).memory.steps, 3400);
    EXPECT_TRUE(measured.windows().back().earlier.empty());
    measured.gather(steps(0, 4000, 9000), used(0));  // more than are kept, at once
    ASSERT_EQ(measured.steps()[0].size(), 500u);
    EXPECT_EQ(measured.steps()[0].front().of(Phase::kForward), 8500);
  });
}

}  // namespace
}  // namespace dtrain::measure
