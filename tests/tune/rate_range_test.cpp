// The learning-rate range test on made curves of the loss.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tune/rate_range.h"

namespace dtrain::tune {
namespace {

constexpr double kFirst = 1e-7, kLast = 1;

// Flat, a fall around 10^middle, a floor, and a rise from 10^end on.
double made_loss(double rate, double middle, double end) {
  const double x = std::log10(rate);
  const double fall = 2 / (1 + std::exp(-4 * (x - middle)));
  return 3 - fall + std::exp(6 * (x - end));
}

struct Curve {
  std::vector<double> rates, losses;
};
Curve curve(double middle, double end, double noise, unsigned seed, int64_t steps = 100) {
  std::mt19937 random(seed);
  std::normal_distribution<> error(0, noise);
  Curve made{exponential_rates(kFirst, kLast, steps), {}};
  Divergence divergence(steps);
  for (const double rate : made.rates) {
    made.losses.push_back(made_loss(rate, middle, end) + (noise > 0 ? error(random) : 0));
    if (divergence.add(made.losses.back())) break;
  }
  return made;
}

TEST(ExponentialRates, RiseByTheSameFactor) {
  const std::vector<double> rates = exponential_rates(1e-6, 1, 7);
  ASSERT_EQ(rates.size(), 7u);
  for (size_t i = 0; i < rates.size(); ++i)
    EXPECT_NEAR(rates[i] / std::pow(10, -6.0 + static_cast<double>(i)), 1, 1e-9);
}

TEST(SuggestRate, FindsWhereTheLossFallsFastest) {
  for (const double middle : {-5.0, -4.0, -3.0, -2.0}) {
    const Curve made = curve(middle, middle + 2, 0, 1);
    const auto found = suggest_rate(made.rates, made.losses);
    ASSERT_TRUE(found) << middle;
    EXPECT_NEAR(std::log10(found->rate), middle, 0.15)
        << "no lag: a moving average would be half a decade late";
    EXPECT_GT(found->lowest, found->rate);
    EXPECT_NEAR(found->fall, 2.0 / 3, 0.1);
  }
}

TEST(SuggestRate, StandsNoise) {
  int near = 0;
  constexpr int kRuns = 200;
  for (unsigned seed = 0; seed < kRuns; ++seed) {
    const Curve made = curve(-3, -1, 0.1, seed);
    const auto found = suggest_rate(made.rates, made.losses);
    near += found && std::abs(std::log10(found->rate) + 3) < 0.5;
  }
  EXPECT_GE(near, kRuns * 95 / 100);
}

// A batch that is hard by chance, at a rate that trains nothing, is no fall of the loss.
TEST(SuggestRate, IsNotLedByTheFirstLosses) {
  Curve made = curve(-3, -1, 0.02, 1);
  made.losses[0] += 3;
  const auto found = suggest_rate(made.rates, made.losses);
  ASSERT_TRUE(found);
  EXPECT_NEAR(std::log10(found->rate), -3, 0.5);
}

TEST(SuggestRate, IsSilentWhereNothingIsLearned) {
  int silent = 0;
  constexpr int kRuns = 200;
  for (unsigned seed = 0; seed < kRuns; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<> error(3, 0.1);
    std::vector<double> losses;
    const std::vector<double> rates = exponential_rates(kFirst, kLast, 100);
    for (size_t i = 0; i < rates.size(); ++i) losses.push_back(error(random));
    silent += !suggest_rate(rates, losses);
  }
  EXPECT_GE(silent, kRuns * 98 / 100);
  EXPECT_FALSE(
      suggest_rate(exponential_rates(kFirst, kLast, 100), std::vector<double>{3, 2, std::nan("")}))
      << "too few steps";
}

TEST(SuggestRate, LeavesLossesOutThatAreNotFinite) {
  Curve made = curve(-3, -1, 0, 1);
  made.losses.push_back(std::numeric_limits<double>::infinity());
  const auto found = suggest_rate(made.rates, made.losses);
  ASSERT_TRUE(found);
  EXPECT_NEAR(std::log10(found->rate), -3, 0.2);
}

TEST(Divergence, EndsTheTestSoonAfterTheLossRises) {
  const Curve made = curve(-3, -1, 0.05, 1);
  EXPECT_LT(made.losses.size(), 100u);
  EXPECT_GT(made.rates[made.losses.size() - 1], 0.1);
  Divergence divergence(100);
  EXPECT_FALSE(divergence.add(2));
  EXPECT_TRUE(divergence.add(std::nan("")));
  Divergence falling(50);
  for (int i = 0; i < 50; ++i)
    EXPECT_FALSE(falling.add(3.0 - 0.05 * i)) << "a loss that falls goes on";
}

TEST(Smoothed, KeepsALineToItsEnds) {
  std::vector<double> line;
  for (int i = 0; i < 30; ++i) line.push_back(5 - 0.1 * i);
  const std::vector<double> smooth = smoothed(line, 3);
  for (size_t i = 0; i < line.size(); ++i) EXPECT_NEAR(smooth[i], line[i], 1e-12);
}

}  // namespace
}  // namespace dtrain::tune
