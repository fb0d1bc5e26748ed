#include "diagnose/computes_sooner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "diagnose/lateness.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;
using BySteps = std::vector<double>;  // seconds of each step

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
    s.phases[static_cast<size_t>(Phase::kForward)] *= left;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= left;
  };
}

}  // namespace dtrain::diagnose
