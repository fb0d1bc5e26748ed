#include "diagnose/lateness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;
using BySteps = std::vector<double>;                    // seconds of each step
using SharesByRank = std::vector<std::vector<double>>;  // indexed by rank, then by step

// How much longer a rank computed than the others did in the same step, as a share of the longer
// time; negative: less. Steps differ by a third and more, because samples have lengths and epochs
// have tails, and mostly on all ranks.
SharesByRank behind_others(const std::vector<Steps>& ranks) {
  SharesByRank behind(ranks.size(), std::vector<double>(ranks[0].size()));
  const size_t middle = (ranks.size() - 2) / 2;
  for (size_t step = 0; step < ranks[0].size(); ++step) {
    std::vector<double> all;
    for (const Steps& rank : ranks) all.push_back(own_work(rank[step]));
    std::ranges::sort(all);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const double own = own_work(ranks[rank][step]);
      const double others = all[own <= all[middle] ? middle + 1 : middle];  // their median
      if (own > 0 || others > 0) behind[rank][step] = (own - others) / std::max(own, others);
    }
  }
  return behind;
}

// The largest autocorrelation of the shares, at any lag up to ten steps, all ranks together: 0 of
// noise, near 1 where ranks are late in turn. Few steps show less: those of lag k are divided by
// all of them.
double repetition(const SharesByRank& behind) {
  constexpr size_t kMostLag = 10;
  const size_t steps = behind[0].size();
  std::vector<double> products(std::min(kMostLag, steps - 1) + 1);
  for (const std::vector<double>& rank : behind) {
    double mean = 0;
    for (const double share : rank) mean += share / static_cast<double>(steps);
    for (size_t lag = 0; lag < products.size(); ++lag) {
      for (size_t step = lag; step < steps; ++step)
        products[lag] += (rank[step] - mean) * (rank[step - lag] - mean);
    }
  }
  return products[0] > 0 ? *std::max_element(products.begin() + 1, products.end()) / products[0]
                         : 0;
}

// The standard deviation of the shares of ranks that are not late. Late ranks must not pass for
// noise: where few are late, the smaller shares show it, and where a rank stays late for some
// steps, what changes from step to step.
struct Noise {
  double deviation = 0;
  bool of_two_values = false;  // one rank or another is late in every step: no share is small
};

Noise noise_of(const SharesByRank& behind) {
  // Of the absolute values of a normal distribution, and of the differences of two such values,
  // in deviations.
  constexpr double kQuarter = 0.319, kMedianChange = 0.954;
  // The first of the third quartile; of a normal distribution it is 0.28
  constexpr double kNoneIsSmall = 0.5;
  std::vector<double> sizes, changes;
  for (const std::vector<double>& rank : behind) {
    for (size_t step = 0; step < rank.size(); ++step) {
      sizes.push_back(std::abs(rank[step]));
      if (step > 0) changes.push_back(std::abs(rank[step] - rank[step - 1]));
    }
  }
  const double first = quantile(sizes, 0.25), third = quantile(sizes, 0.75);
  return {
      .deviation = std::min(first / kQuarter, quantile(std::move(changes), 0.5) / kMedianChange),
      .of_two_values = first > kNoneIsSmall * third};
}

// The largest of the shares that noise explains. Where the shares are no noise, neither do they
// show how much of it there is.
double most_by_chance(const SharesByRank& behind) {
  constexpr double kManyDeviations = 2.5, kLeast = 0.05, kMostInTurn = 0.09;
  const auto steps = static_cast<double>(behind[0].size());
  // An autocorrelation that none of ten lags has
  const double of_noise = std::max(0.5, 3 / std::sqrt(steps));
  const Noise noise = noise_of(behind);
  const double most = std::max(kLeast, kManyDeviations * noise.deviation);
  return noise.of_two_values || repetition(behind) > of_noise ? std::min(most, kMostInTurn) : most;
}

BySteps computing_of(const Steps& steps) {
  BySteps seconds;
  for (const StepTimes& step : steps) seconds.push_back(step.computing());
  return seconds;
}

BySteps longer_than_fast(const BySteps& own) {
  constexpr double kFast = 0.1;  // share of the steps
  const double fast = quantile(own, kFast);
  BySteps longer;
  for (const double seconds : own) longer.push_back(std::max(0.0, seconds - fast));
  return longer;
}

// Divides `total` in proportion to `parts`, at most those, among `shares`. Returns what is left.
double divide(double total, const BySteps& parts, BySteps& shares) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  const double factor = sum > 0 ? std::min(1.0, total / sum) : 0;
  for (size_t step = 0; step < parts.size(); ++step) shares[step] += factor * parts[step];
  return std::max(0.0, total - sum);
}

BySteps shares_of(double total, const Steps& steps, const BySteps& late) {
  BySteps own = computing_of(steps), shares(own.size());
  double left = divide(total, late, shares);
  for (size_t step = 0; step < own.size(); ++step) own[step] -= late[step];
  left = divide(left, longer_than_fast(own), shares);
  for (double& share : shares) share += left / static_cast<double>(shares.size());
  return shares;
}

}  // namespace

double own_work(const StepTimes& step) { return step.computing() + step.of(Phase::kOptimizer); }

std::vector<std::vector<double>> lateness_of(const std::vector<Steps>& ranks) {
  if (ranks.size() < 2 || ranks[0].size() < 2) {
    return std::vector<std::vector<double>>(
        ranks.size(), std::vector<double>(ranks.empty() ? 0 : ranks[0].size()));
  }
  SharesByRank late = behind_others(ranks);
  const double most = most_by_chance(late);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t step = 0; step < ranks[rank].size(); ++step) {
      double& behind = late[rank][step];
      behind = behind > most ? behind * own_work(ranks[rank][step]) : 0;
    }
  }
  return late;
}

Change computes_sooner(const std::vector<Steps>& ranks, const std::vector<double>& seconds,
                       const std::vector<double>& lost) {
  if (ranks.empty() || ranks[0].empty()) return {};
  std::vector<BySteps> sooner;
  const std::vector<BySteps> late = lateness_of(ranks);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    BySteps shares =
        shares_of(lost[rank] * static_cast<double>(ranks[rank].size()), ranks[rank], late[rank]);
    for (double& share : shares) share *= lost[rank] > 0 ? seconds[rank] / lost[rank] : 0;
    sooner.push_back(std::move(shares));
  }
  return [sooner = std::move(sooner)](size_t rank, size_t step, StepTimes& s) {
    if (s.computing() <= 0) return;
    const double left = std::max(0.0, 1 - sooner[rank][step] / s.computing());
    s.of(Phase::kForward) *= left;
    s.of(Phase::kBackward) *= left;
  };
}

}  // namespace dtrain::diagnose
