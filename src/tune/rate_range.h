#pragma once

// The learning-rate range test: the rate rises from step to step, by the same factor each time, and
// the loss shows which rates train. Leslie N. Smith, "Cyclical Learning Rates for Training Neural
// Networks", WACV 2017 (arXiv 1506.01186, 2015), with a linear rise; the exponential one is from S.
// Gugger's and J. Howard's fastai. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::tune {

// `steps` rates from `first` to `last`, each the same factor above the one before. Requires: two
// steps or more.
std::vector<double> exponential_rates(double first, double last, int64_t steps);

// Says when to stop: the loss, smoothed by a moving average without the bias of its beginning, is
// four times the lowest one, or not finite.
class Divergence {
 public:
  explicit Divergence(int64_t steps);  // length of the whole test
  bool add(double loss);               // true: the test ends

 private:
  const double decay_;
  double mean_ = 0, weight_ = 0, lowest_;
};

struct RateSuggestion {
  double rate = 0;    // where the loss falls fastest, over the logarithm of the rate
  double lowest = 0;  // the rate with the lowest loss: from there on it rises
  double fall = 0;    // share of the first loss that is gone at the lowest
};

// `losses` of the steps with these rates, up to the divergence. They are smoothed to both sides:
// the moving average above lags, and would suggest a rate several times too high. nullopt: the loss
// does not fall by more than its noise.
std::optional<RateSuggestion> suggest_rate(std::span<const double> rates,
                                           std::span<const double> losses);

// The values smoothed by a Gaussian of this width in steps
std::vector<double> smoothed(std::span<const double> values, double width);

}  // namespace dtrain::tune
