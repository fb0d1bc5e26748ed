// When saves, evaluations and step lines are due, and how ranks agree on what is due by the clock.

#include "train/interval_trigger.h"

#include <gtest/gtest.h>

#include "support/fake_clock.h"
#include "support/thread_world.h"
#include "train/step_agreement.h"

namespace dtrain::train {
namespace {

using std::chrono::seconds;

TEST(IntervalTrigger, IsDueByStepsAndEpochsOnEveryRank) {
  const testing::FakeClock clock;
  const IntervalTrigger steps({.steps = 4}, 10, clock, /*keeps_time=*/false),
      epochs({.epochs = 2}, 10, clock, true);
  EXPECT_TRUE(steps.due(8));
  EXPECT_FALSE(steps.due(9));
  EXPECT_TRUE(epochs.due(20));
  EXPECT_FALSE(epochs.due(10));
}

TEST(IntervalTrigger, RequestsOnceWhenTheMinutesAreOver) {
  const testing::FakeClock clock;
  IntervalTrigger trigger({.minutes = 1}, 10, clock, /*keeps_time=*/true);
  clock.advance(seconds(59));
  EXPECT_FALSE(trigger.request());
  clock.advance(seconds(1));
  EXPECT_TRUE(trigger.request());
  clock.advance(seconds(1));
  EXPECT_FALSE(trigger.request()) << "granted at the next boundary, not requested again";
  trigger.restart();
  clock.advance(seconds(59));
  EXPECT_FALSE(trigger.request());
  clock.advance(seconds(1));
  EXPECT_TRUE(trigger.request());
}

TEST(IntervalTrigger, SecondsAreSeconds) {
  const testing::FakeClock clock;
  IntervalTrigger trigger({.seconds = 10}, 10, clock, /*keeps_time=*/true);
  clock.advance(seconds(9));
  EXPECT_FALSE(trigger.request());
  clock.advance(seconds(1));
  EXPECT_TRUE(trigger.request());
}

TEST(IntervalTrigger, RestartsAlsoWhenTheActionCameFirst) {
  const testing::FakeClock clock;
  IntervalTrigger trigger({.steps = 3, .minutes = 1}, 10, clock, /*keeps_time=*/true);
  clock.advance(seconds(50));
  trigger.restart();  // due by steps
  clock.advance(seconds(50));
  EXPECT_FALSE(trigger.request());
}

TEST(IntervalTrigger, RequestsNothingWithoutMinutesOrOnOtherRanks) {
  const testing::FakeClock clock;
  IntervalTrigger by_steps({.steps = 1}, 10, clock, /*keeps_time=*/true),
      other({.minutes = 1}, 10, clock, false);
  clock.advance(seconds(1000));
  EXPECT_FALSE(by_steps.request());
  EXPECT_FALSE(other.request()) << "only the clock of rank 0 counts";
}

TEST(StepAgreement, GrantsARequestOfOneRankToAllAtTheNextBoundary) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    StepAgreement agreement(comm);
    const Requests first = agreement.exchange({.save = comm.rank() == 2, .log = comm.rank() == 0});
    EXPECT_FALSE(first.stop || first.save || first.evaluate || first.log);
    const Requests second = agreement.exchange({});
    EXPECT_TRUE(second.save);
    EXPECT_TRUE(second.log);
    EXPECT_TRUE(agreement.granted().log);
    EXPECT_FALSE(second.stop || second.evaluate);
    const Requests third = agreement.exchange({.stop = true});
    EXPECT_FALSE(third.save || third.log) << "granted once";
    agreement.settle();
  });
}

TEST(StepAgreement, GrantsAtOnceBeforeTheFirstStep) {
  for (const int ranks : {1, 3}) {
    dist::run_thread_world(ranks, [ranks](dist::Communicator& comm) {
      StepAgreement agreement(comm);
      EXPECT_TRUE(agreement.exchange_now({.verdict = comm.rank() == ranks - 1}).verdict);
      EXPECT_TRUE(agreement.granted().verdict);
      EXPECT_FALSE(agreement.exchange({}).verdict) << "granted once";
      agreement.settle();
    });
  }
}

TEST(StepAgreement, GrantsAtOnceOnOneRank) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    StepAgreement agreement(comm);
    EXPECT_TRUE(agreement.exchange({.evaluate = true}).evaluate);
    EXPECT_FALSE(agreement.exchange({}).evaluate);
  });
}

}  // namespace
}  // namespace dtrain::train
