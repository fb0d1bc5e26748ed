#include "train/phase_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_clock.h"

namespace dtrain::train {
namespace {

using measure::Phase;
using ::testing::ElementsAre;
using ::testing::Pair;

// Records what the watchdog receives.
class PhaseTrackerTest : public ::testing::Test {
 protected:
  std::vector<std::pair<std::string, int64_t>> places_;
  const testing::FakeClock clock_;
  PhaseTracker tracker_{
      at::kCPU, [this](const char* phase, int64_t step) { places_.emplace_back(phase, step); },
      /*recorder=*/nullptr, clock_};

  double seconds(Phase phase) { return tracker_.clock().totals()[static_cast<size_t>(phase)]; }
};

TEST_F(PhaseTrackerTest, TellsTheWatchdogEachPhaseAndTheStep) {
  tracker_.set_step(7);
  tracker_.enter(Phase::kDataWait);
  tracker_.enter(Phase::kForward);
  tracker_.set_step(8);
  tracker_.enter(Phase::kOptimizer);
  EXPECT_THAT(places_, ElementsAre(Pair("data_wait", 7), Pair("forward", 7), Pair("optimizer", 8)));
}

// dist/stall_detector.cpp does not blame a rank in "all_reduce".
TEST_F(PhaseTrackerTest, ARankThatWaitsForOthersIsInAllReduceWhateverItsPhase) {
  tracker_.enter(Phase::kAllReduceWait);
  tracker_.enter(Phase::kEval);
  tracker_.wait_for_others();
  tracker_.proceed();
  EXPECT_THAT(places_, ElementsAre(Pair("all_reduce", 0), Pair("eval", 0), Pair("all_reduce", 0),
                                   Pair("eval", 0)));
  EXPECT_EQ(tracker_.current(), Phase::kEval);
}

TEST_F(PhaseTrackerTest, BetweenPhasesThereIsNothingToProceedWith) {
  tracker_.enter(Phase::kEval);
  tracker_.leave();
  tracker_.proceed();
  EXPECT_EQ(tracker_.current(), Phase::kCount);
  EXPECT_THAT(places_, ElementsAre(Pair("eval", 0)));
}

TEST_F(PhaseTrackerTest, WaitingForOthersCountsAsTimeOfThePhase) {
  const auto wait = [this] { clock_.advance(std::chrono::milliseconds(20)); };
  tracker_.enter(Phase::kCheckpoint);
  tracker_.wait_for_others();
  wait();
  tracker_.proceed();
  tracker_.leave();
  wait();
  tracker_.enter(Phase::kForward);
  wait();
  tracker_.leave();
  EXPECT_DOUBLE_EQ(seconds(Phase::kCheckpoint), 0.020);
  EXPECT_DOUBLE_EQ(seconds(Phase::kForward), 0.020);
  double sum = 0;
  for (const double each : tracker_.clock().totals()) sum += each;
  EXPECT_DOUBLE_EQ(sum, seconds(Phase::kCheckpoint) + seconds(Phase::kForward))
      << "no phase runs after leave()";
}

TEST(PhaseTracker, NeedsNoWatchdog) {
  PhaseTracker tracker(at::kCPU);
  tracker.enter(Phase::kForward);
  tracker.wait_for_others();
  EXPECT_EQ(tracker.current(), Phase::kForward);
}

// A step of a traced run; the phase after it belongs to no step yet.
void step(PhaseTracker& tracker, int64_t done) {
  tracker.set_step(done);
  tracker.begin_step();
  for (const Phase phase : {Phase::kDataWait, Phase::kForward, Phase::kBackward, Phase::kOptimizer})
    tracker.enter(phase);
  tracker.leave();
}

TEST(PhaseTracker, TellsATraceEachPhaseWithoutGaps) {
  trace::Recorder recorder;
  PhaseTracker tracker(at::kCPU, {}, &recorder);
  step(tracker, 3);
  recorder.start(0, 100);
  step(tracker, 4);
  step(tracker, 5);
  tracker.end_steps();
  recorder.stop();
  step(tracker, 6);
  const std::vector<trace::TrackEvents> tracks = recorder.events();
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(tracks[0].name, trace::kTrainingThread);
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  std::optional<trace::Time> end;
  for (const trace::Event& event : tracks[0].events) {
    if (event.kind == trace::Kind::kStep) {
      numbers.push_back(event.a);
      EXPECT_TRUE(!end || *end == event.begin);
      continue;
    }
    names.emplace_back(event.name);
    if (end) {
      EXPECT_EQ(event.begin, *end) << event.name;
    }
    end = event.end;
  }
  EXPECT_THAT(numbers, ElementsAre(5, 6)) << "counted from 1";
  EXPECT_THAT(names, ElementsAre("data_wait", "forward", "backward", "optimizer", "other",
                                 "data_wait", "forward", "backward", "optimizer", "other"));
}

TEST(PhaseTracker, WithoutARecordingATraceReceivesNothing) {
  trace::Recorder recorder;
  PhaseTracker tracker(at::kCPU, {}, &recorder);
  for (int64_t i = 0; i < 100; ++i) step(tracker, i);
  EXPECT_EQ(recorder.counted(), 0u);
  EXPECT_TRUE(recorder.events()[0].events.empty());
}

}  // namespace
}  // namespace dtrain::train
