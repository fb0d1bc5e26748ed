#include "diagnose/means.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::StepTimes;

template <typename Value>
double mean(const Steps& steps, const Value& value) {
  double sum = 0;
  for (const StepTimes& step : steps) sum += std::invoke(value, step);
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

template <typename Seconds>
size_t rank_with_most(const RunEvidence& run, const Seconds& seconds) {
  const auto most = std::ranges::max_element(
      run.ranks, {}, [&](const RankEvidence& rank) { return seconds(rank.steps); });
  return static_cast<size_t>(most - run.ranks.begin());
}

}  // namespace

double mean_wall(const Steps& steps) { return mean(steps, &StepTimes::wall); }
double mean_other(const Steps& steps) { return mean(steps, &StepTimes::other); }
double mean_launch(const Steps& steps) { return mean(steps, &StepTimes::launch); }
double mean_computing(const Steps& steps) { return mean(steps, &StepTimes::computing); }
double mean_of(const Steps& steps, measure::Phase phase) {
  return mean(steps, [phase](const StepTimes& s) { return s.of(phase); });
}

size_t worst_rank(const RunEvidence& run, measure::Phase phase) {
  return rank_with_most(run, [phase](const Steps& steps) { return mean_of(steps, phase); });
}

size_t longest_computing(const RunEvidence& run) { return rank_with_most(run, mean_computing); }

int only_rank(const RunEvidence& run, measure::Phase phase) {
  if (run.ranks.size() < 2) return -1;
  const size_t worst = worst_rank(run, phase);
  const double most = mean_of(run.ranks[worst].steps, phase);
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    if (rank != worst && 2 * mean_of(run.ranks[rank].steps, phase) > most) return -1;
  }
  return static_cast<int>(worst);
}

int only_rank_with_slow_readers(const RunEvidence& run) {
  constexpr double kSlower = 1.3;
  const auto seconds = [](const RankEvidence& rank) { return rank.service() / rank.readers(); };
  const int only = only_rank(run, measure::Phase::kDataWait);
  for (size_t rank = 0; only >= 0 && rank < run.ranks.size(); ++rank) {
    const RankEvidence& slow = run.ranks[static_cast<size_t>(only)];
    if (static_cast<int>(rank) != only && kSlower * seconds(run.ranks[rank]) > seconds(slow))
      return -1;
  }
  return only;
}

double share_beyond_headroom(const RunEvidence& run, const Steps& steps) {
  if (!(run.cached_step > 0)) return 0;
  const double outside =
      mean_of(steps, measure::Phase::kCheckpoint) + mean_of(steps, measure::Phase::kEval);
  const double waits = mean_of(steps, measure::Phase::kDataWait),
               most = mean_wall(steps) - run.cached_step - outside;
  return waits > 0 ? std::clamp(1 - most / waits, 0.0, 1.0) : 0;
}

int rank_of(const RunEvidence& run, size_t rank) {
  return run.ranks.size() > 1 ? static_cast<int>(rank) : -1;
}

const HostEvidence& host_of(const RunEvidence& run, const RankEvidence& rank) {
  static const HostEvidence unknown;
  const auto host = static_cast<size_t>(rank.host);
  return host < run.hosts.size() ? run.hosts[host] : unknown;
}

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

Change times(measure::Phase phase, double factor) {
  return [phase, factor](size_t, size_t, StepTimes& s) { s.of(phase) *= factor; };
}

double quantile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string percent(double share) { return str(fixed(100 * share, 0), " %"); }

std::string of_step(double seconds, double step) {
  return str(fixed(1e3 * seconds, 1), " of ", fixed(1e3 * step, 1), " ms");
}

}  // namespace dtrain::diagnose
