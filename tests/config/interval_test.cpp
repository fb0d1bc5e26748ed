#include "config/interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::config {
namespace {

using ::testing::HasSubstr;

Interval parsed(const std::string& text, IntervalUnits units = IntervalUnits::kWords) {
  Interval interval;
  EXPECT_EQ(parse_interval(text, interval, units), "") << text;
  return interval;
}

std::string error(const std::string& text, IntervalUnits units = IntervalUnits::kWords) {
  Interval interval{.steps = 7};
  const std::string wrong = parse_interval(text, interval, units);
  EXPECT_EQ(interval, (Interval{.steps = 7})) << text << " changed the value";
  return wrong;
}

TEST(Interval, ReadsStepsEpochsTimeAndSeveralOfThem) {
  EXPECT_EQ(parsed("500steps"), (Interval{.steps = 500}));
  EXPECT_EQ(parsed("500"), (Interval{.steps = 500}));
  EXPECT_EQ(parsed("2epochs"), (Interval{.epochs = 2}));
  EXPECT_EQ(parsed("1epoch,1step"), (Interval{.steps = 1, .epochs = 1}));
  EXPECT_EQ(parsed("0.5min"), (Interval{.minutes = 0.5}));
  EXPECT_EQ(parsed("30sec"), (Interval{.seconds = 30}));
  EXPECT_EQ(parsed("10 min, 500steps,1epoch"),
            (Interval{.steps = 500, .epochs = 1, .minutes = 10}));
  EXPECT_EQ(parsed("never"), Interval{});
}

TEST(Interval, ALetterIsRefusedWithBothReadings) {
  EXPECT_EQ(error("500s"), "'500s' can be read as steps or as seconds: write 500steps or 500sec");
  EXPECT_EQ(error("2e"), "'2e' can be read as epochs or as part of a number: write 2epochs");
  EXPECT_EQ(error("0.5m"), "'0.5m' can be read as minutes or as micro-steps: write 0.5min");
  EXPECT_EQ(error("10min,500s"),
            "'500s' can be read as steps or as seconds: write 500steps or 500sec");
}

TEST(Interval, TheLettersOfEarlierVersionsAreReadWhereTheyAreAllowed) {
  const IntervalUnits both = IntervalUnits::kWordsAndLetters;
  EXPECT_EQ(parsed("10m, 500s,1e", both), (Interval{.steps = 500, .epochs = 1, .minutes = 10}));
  EXPECT_EQ(parsed("10min,500s", both), (Interval{.steps = 500, .minutes = 10}));
  EXPECT_EQ(to_string(parsed("500s,2e,0.1m", both)), "500steps,2epochs,0.1min");
  EXPECT_THAT(error("5m,6min", both), HasSubstr("twice"));
  EXPECT_THAT(error("s", both), HasSubstr("is not an interval"));
}

TEST(Interval, RefusesOtherTextAndKeepsTheOldValue) {
  for (const char* text : {"",
                           "s",
                           "steps",
                           "0steps",
                           "-5steps",
                           "+5steps",
                           "05steps",
                           "5.5steps",
                           "5x",
                           "1e3steps",
                           "5steps,",
                           "5,,2",
                           "5 steps 2epochs",
                           "nan",
                           "infmin",
                           "never,5",
                           "Never",
                           "1e9min",
                           "2000000min",
                           "0min",
                           "0sec",
                           "5Steps",
                           "5stepss",
                           "5..5min",
                           "6e7sec",
                           "99999999999999999999steps",
                           "2000000000steps",
                           "70000000sec",
                           "5hours"}) {
    EXPECT_THAT(error(text), HasSubstr("expected: 500steps, 2epochs, 10min, 30sec")) << text;
  }
  EXPECT_THAT(error("5steps,6"), HasSubstr("twice"));
  EXPECT_THAT(error("5min,6min"), HasSubstr("twice"));
}

TEST(Interval, PrintsWhatItReads) {
  for (const char* text :
       {"500steps", "1step", "2epochs", "1epoch", "0.1min", "1min", "30sec",
        "500steps,2epochs,10min,0.25sec", "never", "1000000min", "0.000001min"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
  EXPECT_EQ(to_string(parsed("10")), "10steps");
  const std::string tiny = "0." + std::string(300, '0') + "125min";
  EXPECT_EQ(to_string(parsed(tiny)), tiny);
}

TEST(Interval, IsDueAtTheEndOfItsStepsAndEpochs) {
  const Interval steps{.steps = 3}, epochs{.epochs = 2}, both{.steps = 4, .epochs = 1},
      time{.minutes = 1};
  std::vector<int64_t> at_steps, at_epochs, at_both;
  for (int64_t step = 1; step <= 20; ++step) {
    if (steps.due(step, 5)) at_steps.push_back(step);
    if (epochs.due(step, 5)) at_epochs.push_back(step);
    if (both.due(step, 5)) at_both.push_back(step);
    EXPECT_FALSE(time.due(step, 5)) << "minutes are not counted in steps";
  }
  EXPECT_EQ(at_steps, (std::vector<int64_t>{3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(at_epochs, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(at_both, (std::vector<int64_t>{4, 5, 8, 10, 12, 15, 16, 20}));
}

TEST(Interval, TheShorterTimeCounts) {
  EXPECT_EQ(Interval{}.period(), 0);
  EXPECT_EQ(Interval{.minutes = 2}.period(), 120);
  EXPECT_EQ(Interval{.seconds = 5}.period(), 5);
  EXPECT_EQ((Interval{.minutes = 2, .seconds = 5}.period()), 5);
  EXPECT_EQ((Interval{.minutes = 0.05, .seconds = 5}.period()), 3);
}

}  // namespace
}  // namespace dtrain::config
