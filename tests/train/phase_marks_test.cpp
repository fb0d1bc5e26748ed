// The clock of a GPU with events that a test lets pass.

#include "train/phase_marks.h"

#include <gtest/gtest.h>

#include <utility>

namespace dtrain::train {
namespace {

using measure::Phase;

// A device that reaches its events one after the other, each at its time.
struct Device {
  double now = -1;  // milliseconds
};
struct FakeEvent {
  const Device* device = nullptr;
  double at = 0;
  bool query() const { return at <= device->now; }
  double elapsedTime(const FakeEvent& later) const {
    EXPECT_TRUE(query() && later.query())
        << "CUDA has no time for an event that the device has not passed";
    return later.at - at;
  }
};

class Marks : public ::testing::Test {
 protected:
  void mark(double at, Phase phase, bool begins_step = false) {
    std::optional<FakeEvent> event = marks.spare();
    if (!event) {
      ++made;
      event = FakeEvent{};
    }
    *event = {&device, at};
    marks.add(std::move(*event), phase, begins_step, host);
    host += std::chrono::milliseconds(3);
  }
  void pass(double time) {
    device.now = time;
    marks.drain(sums, [](const FakeEvent&, Phase, double) {});
  }
  // A step of 10 ms: 2 waiting for data, 7 computing, 1 in no phase.
  void step(double begin) {
    mark(begin, Phase::kDataWait, /*begins_step=*/true);
    mark(begin + 2, Phase::kForward);
    mark(begin + 9, Phase::kCount);
  }

  Device device;
  PhaseMarks<FakeEvent> marks;
  StepSums sums;
  PhaseMarks<FakeEvent>::HostTime host;  // it needs 3 ms from mark to mark
  int made = 0;
};

TEST_F(Marks, TimesAreReadAfterTheDeviceHasPassed) {
  step(0);
  step(10);
  pass(-1);
  EXPECT_EQ(sums.totals()[static_cast<size_t>(Phase::kDataWait)], 0) << "the host is ahead";
  pass(5);
  EXPECT_DOUBLE_EQ(sums.totals()[static_cast<size_t>(Phase::kDataWait)], 2e-3);
  EXPECT_EQ(sums.totals()[static_cast<size_t>(Phase::kForward)], 0) << "it has not ended";
  EXPECT_TRUE(sums.take().empty());
  pass(10);
  std::vector<measure::StepTimes> steps = sums.take();
  ASSERT_EQ(steps.size(), 1u) << "the first step ends where the second one begins";
  EXPECT_DOUBLE_EQ(steps[0].wall, 10e-3);
  EXPECT_DOUBLE_EQ(steps[0].of(Phase::kForward), 7e-3);
  EXPECT_DOUBLE_EQ(steps[0].launch, 3e-3) << "of the host, for forward";
  EXPECT_NEAR(steps[0].other(), 1e-3, 1e-12);
  step(20);
  pass(100);
  steps = sums.take();
  ASSERT_EQ(steps.size(), 1u) << "the third runs";
  EXPECT_DOUBLE_EQ(steps[0].wall, 10e-3);
}

TEST_F(Marks, WhatWasBeforeTheFirstStepIsOfNoStep) {
  mark(0, Phase::kEval);
  mark(50, Phase::kCount);
  step(60);
  step(70);
  pass(100);
  const std::vector<measure::StepTimes> steps = sums.take();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].of(Phase::kEval), 0);
  EXPECT_DOUBLE_EQ(steps[0].wall, 10e-3);
  EXPECT_DOUBLE_EQ(sums.totals()[static_cast<size_t>(Phase::kEval)], 50e-3);
}

TEST_F(Marks, EventsAreUsedAgain) {
  for (int i = 0; i < 100; ++i) {
    step(10 * i);
    pass(10 * i + 9.5);
  }
  EXPECT_LE(made, 6) << "those of about one step";
}

TEST_F(Marks, NotesBelongToTheStepInWhichTheyWereMade) {
  dist::BackwardTimes measured;
  measured.begin(at::kCPU);
  measured.ready(at::kCPU, 0, 1);
  step(0);
  sums.note(dist::BackwardTimes());  // a step without samples
  step(10);
  sums.note(measured, {.rows = 3, .cells = 4});
  step(20);
  sums.note(dist::BackwardTimes());
  step(30);
  pass(100);
  const std::vector<measure::StepTimes> steps = sums.take();
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].buckets[2], 0);
  EXPECT_GT(steps[1].buckets[2], 0);
  EXPECT_EQ(steps[0].padded.cells, 0);
  EXPECT_EQ(steps[1].padded.rows, 3);
  EXPECT_EQ(steps[1].padded.cells, 4);
  EXPECT_EQ(steps[2].buckets[2], 0);
}

TEST_F(Marks, ForgottenStepsAreNotTaken) {
  step(0);
  step(10);
  pass(19.5);
  sums.forget();
  step(20);
  step(30);
  pass(100);
  const std::vector<measure::StepTimes> steps = sums.take();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_DOUBLE_EQ(steps[0].wall, 10e-3) << "not the end of the one before";
}

}  // namespace
}  // namespace dtrain::train
