#include "dist/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "core/spread.h"

namespace dtrain::dist {
namespace {

constexpr int kIterations = 50;
constexpr double kSmallestError = 1e-9;  // relative: below it a sample counts as met

using Weights = std::vector<double>;

double relative_error(const CostFit& fit, const CostSample& sample) {
  return fit.seconds(sample.bytes) / sample.seconds - 1;
}

// The fit with the least sum of weight × (relative error)² and no negative part.
CostFit least_squares(const std::vector<CostSample>& samples, const Weights& weights) {
  // Of the normal equations, for the rows (1, bytes) / seconds = 1
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double one = 1 / samples[i].seconds, bytes = samples[i].bytes / samples[i].seconds;
    aa += weights[i] * one * one;
    ab += weights[i] * one * bytes;
    bb += weights[i] * bytes * bytes;
    a += weights[i] * one;
    b += weights[i] * bytes;
  }
  const double determinant = aa * bb - ab * ab;
  const CostFit flat{.latency = a / aa};
  if (determinant <= 1e-12 * aa * bb) return flat;  // one size
  const CostFit free{.latency = (a * bb - b * ab) / determinant,
                     .seconds_per_byte = (b * aa - a * ab) / determinant};
  if (free.latency < 0) return {.seconds_per_byte = b / bb};
  return free.seconds_per_byte < 0 ? flat : free;
}

// The least sum of |relative error|, by weights that make squares of it: one wild sample, and even
// a third of wild ones, hardly move it.
CostFit least_absolute(const std::vector<CostSample>& samples) {
  Weights weights(samples.size(), 1);
  CostFit fit = least_squares(samples, weights);
  for (int i = 0; i < kIterations; ++i) {
    for (size_t k = 0; k < samples.size(); ++k) {
      weights[k] = 1 / std::max(std::abs(relative_error(fit, samples[k])), kSmallestError);
    }
    fit = least_squares(samples, weights);
  }
  return fit;
}

double median_error(const CostFit& fit, const std::vector<CostSample>& samples) {
  std::vector<double> errors;
  for (const CostSample& sample : samples) errors.push_back(std::abs(relative_error(fit, sample)));
  return median_of(std::move(errors));
}

}  // namespace

CostFit fit_cost(std::span<const CostSample> given) {
  std::vector<CostSample> samples;
  std::copy_if(given.begin(), given.end(), std::back_inserter(samples),
               [](const CostSample& sample) { return sample.seconds > 0 && sample.bytes >= 0; });
  if (samples.empty()) return {};
  CostFit fit = least_absolute(samples);
  // From there, least squares over what is within the usual scatter (Tukey's biweight): it uses the
  // information of all good samples, where the sum of absolute errors passes through two of them.
  const double scatter = std::max(1.4826 * median_error(fit, samples), kSmallestError);
  for (int i = 0; i < kIterations; ++i) {
    Weights weights;
    for (const CostSample& sample : samples) {
      const double at = relative_error(fit, sample) / (4.685 * scatter);
      weights.push_back(std::abs(at) < 1 ? (1 - at * at) * (1 - at * at) : 0);
    }
    if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) break;
    fit = least_squares(samples, weights);
  }
  fit.residual = median_error(fit, samples);
  return fit;
}

}  // namespace dtrain::dist
