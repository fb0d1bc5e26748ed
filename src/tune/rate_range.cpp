#include "tune/rate_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace dtrain::tune {
namespace {

constexpr double kDiverged = 4;      // times the lowest loss
constexpr double kSmoothing = 0.04;  // width of the Gaussian as a share of the steps
constexpr double kFewestSteps = 10;

// Of the steps beside each other: half the variance of differences is the variance of one value.
double noise_of(std::span<const double> values) {
  double sum = 0;
  for (size_t i = 1; i < values.size(); ++i)
    sum += (values[i] - values[i - 1]) * (values[i] - values[i - 1]);
  return std::sqrt(sum / 2 / static_cast<double>(std::max<size_t>(1, values.size() - 1)));
}

}  // namespace

std::vector<double> exponential_rates(double first, double last, int64_t steps) {
  DTRAIN_CHECK(steps >= 2 && first > 0 && last > first, "rates from ", first, " to ", last, " in ",
               steps, " steps");
  std::vector<double> rates;
  for (int64_t i = 0; i < steps; ++i) {
    rates.push_back(
        first * std::pow(last / first, static_cast<double>(i) / static_cast<double>(steps - 1)));
  }
  return rates;
}

Divergence::Divergence(int64_t steps)
    : decay_(1 - 1 / std::max(2.0, 0.05 * static_cast<double>(steps))),
      lowest_(std::numeric_limits<double>::max()) {}

bool Divergence::add(double loss) {
  if (!std::isfinite(loss)) return true;
  mean_ = decay_ * mean_ + (1 - decay_) * loss;
  weight_ = decay_ * weight_ + (1 - decay_);
  const double mean = mean_ / weight_;
  lowest_ = std::min(lowest_, mean);
  return mean > kDiverged * lowest_;
}

std::vector<double> smoothed(std::span<const double> values, double width) {
  std::vector<double> means(values.size());
  const auto reach = static_cast<int64_t>(std::ceil(3 * width)),
             count = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < count; ++i) {
    // As far to one side as to the other, so that the ends do not pull a slope towards them.
    const int64_t side = std::min({reach, i, count - 1 - i});
    double sum = 0, weights = 0;
    for (int64_t j = i - side; j <= i + side; ++j) {
      const double weight = std::exp(-0.5 * std::pow(static_cast<double>(j - i) / width, 2));
      sum += weight * values[static_cast<size_t>(j)];
      weights += weight;
    }
    means[static_cast<size_t>(i)] = sum / weights;
  }
  return means;
}

std::optional<RateSuggestion> suggest_rate(std::span<const double> rates,
                                           std::span<const double> losses) {
  size_t count = std::min(rates.size(), losses.size());
  while (count > 0 && !std::isfinite(losses[count - 1])) --count;
  if (static_cast<double>(count) < kFewestSteps) return std::nullopt;
  const std::span<const double> finite = losses.first(count);
  // The number of steps of the whole test makes the width: a test that diverged early has steps as
  // far apart.
  const double width = std::max(1.0, kSmoothing * static_cast<double>(rates.size()));
  const std::vector<double> smooth = smoothed(finite, width);
  // Without the end, whose last values are those of single steps.
  const auto end = smooth.end() - static_cast<std::ptrdiff_t>(
                                      std::min(width / 2, 0.5 * static_cast<double>(count)));
  const auto lowest = static_cast<size_t>(std::min_element(smooth.begin(), end) - smooth.begin());
  // The first losses are at rates that change nothing.
  const size_t before = std::min(std::max<size_t>(1, static_cast<size_t>(2 * width)), count);
  double first = 0;
  for (size_t i = 0; i < before; ++i) first += finite[i] / static_cast<double>(before);
  const double fall = first - smooth[lowest];
  if (lowest < 3 || !(fall > 2 * noise_of(finite.first(lowest + 1)))) return std::nullopt;

  const auto apart = std::max<size_t>(1, static_cast<size_t>(width / 2));
  std::optional<size_t> steepest;
  double slope = 0;
  // Not at the beginning, whose values are smoothed over few steps: a single loss would make a
  // slope there.
  const size_t begin = std::max(apart, std::min(apart + static_cast<size_t>(width), lowest));
  for (size_t i = begin; i + apart < count && i <= lowest; ++i) {
    const double rise =
        (smooth[i + apart] - smooth[i - apart]) / std::log(rates[i + apart] / rates[i - apart]);
    if (rise < slope) {
      slope = rise;
      steepest = i;
    }
  }
  if (!steepest) return std::nullopt;
  return RateSuggestion{
      .rate = rates[*steepest], .lowest = rates[lowest], .fall = fall / std::abs(first)};
}

}  // namespace dtrain::tune
