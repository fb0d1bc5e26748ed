#include "config/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::config {
namespace {

using ::testing::HasSubstr;

WarmUp parsed_warm_up(const std::string& text) {
  WarmUp warm_up{.steps = 7};
  EXPECT_EQ(parse_warm_up(text, warm_up), "") << text;
  return warm_up;
}

TEST(WarmUp, ReadsStepsAndShares) {
  EXPECT_EQ(parsed_warm_up("500"), (WarmUp{.steps = 500}));
  EXPECT_EQ(parsed_warm_up("500steps"), (WarmUp{.steps = 500}));
  EXPECT_EQ(parsed_warm_up("1step"), (WarmUp{.steps = 1}));
  EXPECT_EQ(parsed_warm_up("5%"), (WarmUp{.percent = 5}));
  EXPECT_EQ(parsed_warm_up("0.25%"), (WarmUp{.percent = 0.25}));
  EXPECT_EQ(parsed_warm_up("500steps,5%"), (WarmUp{.steps = 500, .percent = 5}));
  EXPECT_EQ(parsed_warm_up("5%, 500"), (WarmUp{.steps = 500, .percent = 5}));
  for (const char* none : {"0", "0steps", "0%"}) EXPECT_EQ(parsed_warm_up(none), WarmUp{}) << none;
}

TEST(WarmUp, RefusesEverythingElse) {
  for (const char* text :
       {"",      "-1",  "1e3",  "05",  "5 epochs", "2epochs", "101%",       "-5%",  "%",   "5%,5%",
        "5,6",   "5%,", "0,5%", "1x",  "nan",      "inf",     "-inf",       "0xff", "010", "+1",
        "1_000", "8,9", ",8",   "1.5", "steps",    "5%%",     "9999999999", "nan%"}) {
    WarmUp warm_up{.steps = 7};
    EXPECT_THAT(parse_warm_up(text, warm_up),
                HasSubstr("is not a warm-up; expected: 500 or 500steps, 5%"))
        << text;
    EXPECT_EQ(warm_up, (WarmUp{.steps = 7})) << text << " changed the value";
  }
}

TEST(WarmUp, ItsTextIsReadBackAsTheSame) {
  EXPECT_EQ(to_string(WarmUp{.steps = 500}), "500") << "as runs of earlier versions have it";
  EXPECT_EQ(to_string(WarmUp{}), "0");
  EXPECT_EQ(to_string(WarmUp{.percent = 5}), "5%");
  EXPECT_EQ(to_string(WarmUp{.steps = 500, .percent = 12.5}), "500steps,12.5%");
  for (const WarmUp warm_up : {WarmUp{}, WarmUp{.steps = 3}, WarmUp{.percent = 1e-7},
                               WarmUp{.steps = 1, .percent = 0.1}}) {
    EXPECT_EQ(parsed_warm_up(to_string(warm_up)), warm_up);
  }
}

TEST(WarmUp, IsTheShorterOfBoth) {
  EXPECT_EQ(WarmUp{}.of(100), 0);
  EXPECT_EQ(WarmUp{.steps = 500}.of(100), 500);
  EXPECT_EQ(WarmUp{.percent = 5}.of(120), 6);
  EXPECT_EQ(WarmUp{.percent = 5}.of(10), 1);
  EXPECT_EQ(WarmUp{.percent = 5}.of(1), 1);
  EXPECT_EQ((WarmUp{.steps = 500, .percent = 5}.of(120)), 6);
  EXPECT_EQ((WarmUp{.steps = 500, .percent = 5}.of(1'000'000)), 500);
}

}  // namespace
}  // namespace dtrain::config
