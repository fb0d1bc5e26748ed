#include "train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

config::Schedule named(const std::string& name, int64_t warmup = 0) {
  config::Schedule schedule;
  schedule.name = value_named<config::ScheduleName>(name).value();
  schedule.warmup_steps = {.steps = warmup};
  return schedule;
}

TEST(Schedule, ConstantStays) {
  for (const int64_t step : {0, 1, 99, 100000})
    EXPECT_EQ(learning_rate(named("constant"), 0.3, step, 100, 10), 0.3);
}

TEST(Schedule, WarmUpRisesLinearlyAndEndsAtTheRate) {
  for (const char* name : {"constant", "cosine", "step"}) {
    const auto schedule = named(name, 4);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 0, 100, 10), 0.25) << name;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 2, 100, 10), 0.75) << name;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 3, 100, 10), 1) << name;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 4, 100, 10), 1) << name;
  }
}

TEST(Schedule, StepDropsAfterWholeEpochs) {
  auto schedule = named("step");
  schedule.step_epochs = 2;
  schedule.gamma = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 19, 100, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 20, 100, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 40, 100, 10), 0.25);
}

TEST(Schedule, CosinePassesTheMiddleAndHoldsItsEnd) {
  auto schedule = named("cosine", 20);
  schedule.final_lr_ratio = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2, 60, 100, 10), 2 * (0.1 + 1) / 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2, 100, 100, 10), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2, 5000, 100, 10), 0.2);
}

TEST(Schedule, OneCycleRisesFromATwentyFifthAndEndsAtItsRatio) {
  auto schedule = named("one_cycle", 30);
  schedule.final_lr_ratio = 0.001;
  EXPECT_NEAR(learning_rate(schedule, 1, 0, 100, 10), 1.0 / 25, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 29, 100, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 99, 100, 10), 0.001);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 200, 100, 10), 0.001);
  for (int64_t step = 1; step < 100; ++step) {
    const double change =
        learning_rate(schedule, 1, step, 100, 10) - learning_rate(schedule, 1, step - 1, 100, 10);
    EXPECT_TRUE(step <= 29 ? change > 0 : change < 0) << step;
  }
}

TEST(Schedule, ShortRunsGiveNumbers) {
  for (const char* name : {"constant", "step", "cosine", "one_cycle"}) {
    for (const int64_t warmup : {0, 1, 2, 5}) {
      for (const int64_t total : {1, 2, 3, 5}) {
        for (int64_t step = 0; step < total + 2; ++step) {
          const double lr = learning_rate(named(name, warmup), 1, step, total, 1);
          EXPECT_TRUE(std::isfinite(lr) && lr > 0 && lr <= 1)
              << name << " " << warmup << " " << total << " " << step;
        }
      }
    }
  }
}

TEST(Schedule, AWarmUpMayBeAShareOfTheRun) {
  for (const char* name : {"constant", "cosine", "one_cycle"}) {
    config::Schedule share = named(name), both = named(name, 40);
    share.warmup_steps = {.percent = 7.5};
    both.warmup_steps.percent = 7.5;
    for (int64_t step = 0; step < 200; ++step) {
      const double expected = learning_rate(named(name, 15), 0.1, step, 200, 10);
      EXPECT_EQ(learning_rate(share, 0.1, step, 200, 10), expected) << name << " " << step;
      EXPECT_EQ(learning_rate(both, 0.1, step, 200, 10), expected) << name << " " << step;
      EXPECT_EQ(learning_rate(both, 0.1, step, 2000, 10),
                learning_rate(named(name, 40), 0.1, step, 2000, 10));
    }
  }
}

TEST(LongWarmUp, IsSaidWithTheValueToSet) {
  EXPECT_EQ(long_warm_up(named("cosine", 500), 120),
            "the learning rate rises for 500 steps (schedule.warmup_steps 500), and the run has "
            "120, and reaches 24 % of "
            "--lr: use --schedule.warmup_steps 5%, which is 6 steps");
  EXPECT_EQ(
      long_warm_up(named("cosine", 41), 120),
      "the learning rate rises for 41 steps (schedule.warmup_steps 41), and the run has 120: use "
      "--schedule.warmup_steps 5%, which is 6 steps");
  EXPECT_EQ(long_warm_up(named("cosine", 40), 120), "");
  EXPECT_EQ(long_warm_up(named("cosine"), 120), "");
  EXPECT_EQ(long_warm_up(named("cosine", 1), 1), "") << "no warm-up is shorter";
  EXPECT_NE(long_warm_up(named("cosine", 500), 1), "");
  EXPECT_EQ(long_warm_up(named("one_cycle", 60), 120), "");
  EXPECT_EQ(
      long_warm_up(named("one_cycle", 61), 120),
      "the learning rate rises for 61 steps (schedule.warmup_steps 61), and the run has 120: use "
      "--schedule.warmup_steps 0, with which one_cycle rises for 30 %, which is 36 steps");
  const double reached = learning_rate(named("one_cycle", 500), 1, 119, 120, 1);
  EXPECT_THAT(long_warm_up(named("one_cycle", 500), 120),
              ::testing::HasSubstr(str("and reaches ", fixed(100 * reached, 0), " % of --lr")));
  EXPECT_LT(reached, 0.2) << "its rise is half a cosine";
  config::Schedule share = named("cosine", 500);
  share.warmup_steps.percent = 30;
  EXPECT_EQ(long_warm_up(share, 120), "");
  share.warmup_steps.percent = 50;
  EXPECT_NE(long_warm_up(share, 120), "");
}

TEST(SecondWarmUp, IsSaidWithTheValueThatAvoidsIt) {
  config::Schedule share = named("cosine");
  share.warmup_steps = {.percent = 5};
  EXPECT_EQ(second_warm_up({share, 100}, {share, 1000}, 20),
            "the warm-up had ended at step 5 of 100 (schedule.warmup_steps 5%); now it takes 50 "
            "steps of 1000: the "
            "learning rate is lower from step 20 on and rises until step 50. Use "
            "--schedule.warmup_steps 5 to avoid it");
  EXPECT_EQ(second_warm_up({share, 100}, {share, 1000}, 50), "");
  EXPECT_EQ(second_warm_up({share, 100}, {share, 1000}, 4), "") << "it had not ended";
  EXPECT_EQ(second_warm_up({share, 100}, {share, 100}, 20), "");
  EXPECT_EQ(second_warm_up({named("cosine", 5), 100}, {named("cosine", 5), 1000}, 20), "");
}

}  // namespace
}  // namespace dtrain::train
