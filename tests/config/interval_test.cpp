#include "config/interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::config {
namespace {

using ::testing::HasSubstr;

Interval parsed(const std::string& text) {
  Interval interval;
  EXPECT_EQ(parse_interval(text, interval), "") << text;
  return interval;
}

TEST(Interval, ReadsStepsEpochsMinutesAndSeveralOfThem) {
  EXPECT_EQ(parsed("500s"), (Interval{.steps = 500}));
  EXPECT_EQ(parsed("500"), (Interval{.steps = 500}));
  EXPECT_EQ(parsed("2e"), (Interval{.epochs = 2}));
  EXPECT_EQ(parsed("0.5m"), (Interval{.minutes = 0.5}));
  EXPECT_EQ(parsed("10m, 500s,1e"), (Interval{.steps = 500, .epochs = 1, .minutes = 10}));
  EXPECT_EQ(parsed("never"), Interval{});
}

TEST(Interval, RefusesOtherTextAndKeepsTheOldValue) {
  for (const char* text : {"",      "s",    "0s",       "-5s",   "+5s", "05s",  "5.5s", "5x",
                           "1e3s",  "5s,",  "5s,,2e",   "5s 2e", "nan", "infm", "5 s",  "99999999999999999999s",
                           "Never", "1e9m", "2000000m", "0m"}) {
    Interval interval{.steps = 7};
    EXPECT_THAT(parse_interval(text, interval), HasSubstr("expected: 500s (steps)")) << text;
    EXPECT_EQ(interval.steps, 7) << text;
  }
  Interval interval;
  EXPECT_THAT(parse_interval("5s,6s", interval), HasSubstr("twice"));
  EXPECT_THAT(parse_interval("5m,6m", interval), HasSubstr("twice"));
}

TEST(Interval, PrintsWhatItReads) {
  for (const char* text : {"500s", "2e", "0.1m", "500s,2e,10m", "never", "1000000m", "0.000001m"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
  EXPECT_EQ(to_string(parsed("10")), "10s");
  const std::string tiny = "0." + std::string(300, '0') + "125m";
  EXPECT_EQ(to_string(parsed(tiny)), tiny);
}

TEST(Interval, IsDueAtTheEndOfItsStepsAndEpochs) {
  const Interval steps{.steps = 3}, epochs{.epochs = 2}, both{.steps = 4, .epochs = 1}, time{.minutes = 1};
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

}  // namespace
}  // namespace dtrain::config
