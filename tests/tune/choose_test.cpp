// The knee, the plan of rounds, and successive halving over made rates with noise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tune/choose.h"
#include "tune/trials.h"

namespace dtrain::tune {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FewestResources, IsTheKneeAndNotTheEdge) {
  // samples/s over batch sizes: it is flat from 32 on.
  const std::vector<RatedChoice> batches = {{100, 1},   {390, 4},    {900, 16}, {985, 32},
                                            {1000, 64}, {1010, 128}, {990, 256}};
  EXPECT_EQ(fewest_resources(batches), 3u) << "985 is within 3 % of 1010";
  EXPECT_EQ(fewest_resources(batches, 0.0), 5u);
  EXPECT_EQ(fewest_resources(batches, 0.15), 2u);
  EXPECT_EQ(fewest_resources(std::vector<RatedChoice>{{10, 5}, {10.1, 5}, {10.05, 5}}), 1u)
      << "of equal cost the fastest";
  EXPECT_EQ(fewest_resources(std::vector<RatedChoice>{{std::nan(""), 1}, {3, 2}}), 1u)
      << "what cannot be used is none";
}

TEST(LookAlong, EndsBehindTwoThatAreFarSlower) {
  const auto look = [](const std::vector<double>& rates) {
    return look_along(rates.size(), [&](size_t index) { return std::optional(rates[index]); });
  };
  Looks looks = look({900, 1000, 950, 760, 600, 400, 200, 100});
  EXPECT_THAT(looks.contenders, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(looks.rates, ElementsAre(900, 1000, 950, 760, 600, 400))
      << "200 and 100 were not measured";
  EXPECT_FALSE(looks.stopped);
  EXPECT_THAT(look({300, 500, 1000, 900}).contenders, ElementsAre(2, 3))
      << "large ones may be slower";
  EXPECT_THAT(look({1000, 600, 950, 600, 500, 1000}).contenders, ElementsAre(0, 2))
      << "one that is slow may be noise";
  EXPECT_THAT(look({std::nan(""), std::nan(""), 15, 20}).contenders, ElementsAre(2, 3))
      << "the largest do not fit";
  EXPECT_THAT(look({std::nan("")}).contenders, IsEmpty());
  EXPECT_THAT(look({}).contenders, IsEmpty());

  looks =
      look_along(4, [](size_t index) { return index < 2 ? std::optional(10.0) : std::nullopt; });
  EXPECT_TRUE(looks.stopped);
  EXPECT_THAT(looks.contenders, ElementsAre(0, 1));
}

TEST(PlanRounds, HalvesAndDoubles) {
  const std::vector<Round> rounds =
      plan_rounds(8, 24, {.overhead = 0, .shortest = 0.1, .longest = 100});
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[0].choices, 8u);
  EXPECT_EQ(rounds[1].choices, 4u);
  EXPECT_EQ(rounds[2].choices, 2u);
  for (const Round& round : rounds)
    EXPECT_DOUBLE_EQ(static_cast<double>(round.choices) * round.seconds, 8);
}

TEST(PlanRounds, EndsInTimeWheneverItCan) {
  for (size_t choices = 1; choices <= 40; ++choices) {
    for (const double seconds : {0.0, 0.5, 3.0, 20.0, 300.0}) {
      for (const double overhead : {0.0, 0.7, 5.0}) {
        const RoundLimits limits{.overhead = overhead, .shortest = 0.2, .longest = 3};
        const std::vector<Round> rounds = plan_rounds(choices, seconds, limits);
        ASSERT_FALSE(rounds.empty());
        EXPECT_LE(rounds.front().choices, choices);
        double all = 0;
        for (size_t i = 0; i < rounds.size(); ++i) {
          all += static_cast<double>(rounds[i].choices) * (rounds[i].seconds + overhead);
          EXPECT_GE(rounds[i].seconds, limits.shortest);
          EXPECT_LE(rounds[i].seconds, limits.longest);
          if (i > 0) {
            EXPECT_LT(rounds[i].choices, rounds[i - 1].choices);
          }
        }
        if (rounds.front().choices > 1) {
          EXPECT_LE(all, seconds * 1.0001) << choices << " in " << seconds;
        }
      }
    }
  }
  EXPECT_TRUE(plan_rounds(0, 10, {}).empty());
}

// Rates with an error that falls with the square root of the time.
struct Machine {
  std::vector<double> rates = {};
  double noise = 0.03;  // of a second
  std::mt19937 random{1};
  double seconds = 0;

  std::optional<double> operator()(size_t index, double timed) {
    seconds += timed;
    return rates[index] * (1 + noise / std::sqrt(timed) * std::normal_distribution<>(0, 1)(random));
  }
};

TEST(Halve, FindsTheBestOfMany) {
  std::mt19937 random(7);
  int good = 0;
  constexpr int kRuns = 300;
  for (int run = 0; run < kRuns; ++run) {
    Machine machine{.random = std::mt19937(static_cast<unsigned>(run))};
    for (int i = 0; i < 16; ++i)
      machine.rates.push_back(std::uniform_real_distribution<>(200, 1000)(random));
    const std::vector<double> costs(16, 1.0);
    const std::vector<Round> rounds = plan_rounds(16, 10, {.shortest = 0.1, .longest = 10});
    const Halving halving = halve(costs, rounds, kAsGood, std::ref(machine));
    ASSERT_TRUE(halving.winner);
    EXPECT_EQ(halving.candidates.size(), 16u);
    EXPECT_LE(machine.seconds, 10.001);
    const double best = *std::ranges::max_element(machine.rates);
    good += machine.rates[*halving.winner] >= 0.95 * best;
  }
  EXPECT_GE(good, kRuns * 95 / 100);
}

TEST(Halve, KeepsTheCheapOneThatIsAsGood) {
  int knee = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    // 32 is 1 % below the best, and six larger ones are beside it.
    Machine machine{.rates = {1000, 1005, 1010, 1004, 1002, 1006, 1000, 700, 400, 200},
                    .noise = 0.005,
                    .random = std::mt19937(static_cast<unsigned>(run))};
    const std::vector<double> costs = {2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4};
    const Halving halving = halve(costs, plan_rounds(10, 12, {.shortest = 0.1, .longest = 10}),
                                  kAsGood, std::ref(machine));
    knee += halving.winner == 6u;
  }
  EXPECT_GE(knee, kRuns * 95 / 100);
}

TEST(Halve, LeavesOutWhatCannotBeUsedAndStops) {
  const std::vector<double> costs = {3, 2, 1};
  const std::vector<Round> rounds = {{3, 1}, {2, 1}};
  const auto measure = [](size_t index, double) -> std::optional<double> {
    return index == 0 ? std::nan("") : 10.0 * static_cast<double>(index);
  };
  EXPECT_EQ(halve(costs, rounds, kAsGood, measure).winner, 2u);
  const Halving none =
      halve(costs, rounds, kAsGood, [](size_t, double) { return std::optional(std::nan("")); });
  EXPECT_FALSE(none.winner);
  EXPECT_EQ(none.candidates.size(), 3u);

  int left = 2;
  const Halving stopped =
      halve(costs, rounds, kAsGood, [&](size_t index, double) -> std::optional<double> {
        if (left-- == 0) return std::nullopt;
        return 10.0 * static_cast<double>(index + 1);
      });
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.winner, 1u) << "the better one of those that were measured";
  EXPECT_EQ(stopped.candidates.size(), 2u);
  EXPECT_FALSE(halve(costs, {}, kAsGood, measure).winner);
}

TEST(LeftOut, NamesWhatHadNoTime) {
  EXPECT_EQ(left_out_of(Stage::kBatch, 2, {.candidates = {{.index = 0}, {.index = 1}}}), "");
  EXPECT_EQ(left_out_of(Stage::kBatch, 5, {.candidates = {{.index = 0}}}),
            "batch: 4 of 5 candidates, for which --minutes do not suffice");
  EXPECT_EQ(left_out_of(Stage::kNetwork, 3, {.stopped = true}),
            "network: 3 of 3 candidates, for which --minutes do not suffice");
  EXPECT_EQ(
      left_out_of(Stage::kLoader, 1, {.candidates = {{.index = 0}}, .stopped = true}),
      "loader: longer measurements of the best candidates, for which --minutes do not suffice");
}

TEST(Halve, DecidesWithTheRoundBeforeIfTheLastOneWasCutShort) {
  const std::vector<double> costs = {1, 1, 1, 1};
  int left = 5;  // the whole first round, and the first one of the second
  const Halving halving =
      halve(costs, {{4, 1}, {2, 2}}, 0, [&](size_t index, double seconds) -> std::optional<double> {
        if (left-- == 0) return std::nullopt;
        return seconds > 1 ? 1.0 : 10.0 * static_cast<double>(index + 1);  // the leader disappoints
      });
  EXPECT_TRUE(halving.stopped);
  EXPECT_EQ(halving.winner, 2u);
}

}  // namespace
}  // namespace dtrain::tune
