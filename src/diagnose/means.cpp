#include "diagnose/means.h"

#include <algorithm>

#include "core/strings.h"

namespace dtrain::diagnose {
namespace {

template <typename Value>
double mean(const Steps& steps, const Value& value) {
  double sum = 0;
  for (const monitoring::StepTimes& step : steps) sum += value(step);
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

}  // namespace

double mean_wall(const Steps& steps) {
  return mean(steps, [](const monitoring::StepTimes& s) { return s.wall; });
}

double mean_of(const Steps& steps, monitoring::Phase phase) {
  return mean(steps, [phase](const monitoring::StepTimes& s) { return s.of(phase); });
}

double mean_other(const Steps& steps) {
  return mean(steps, [](const monitoring::StepTimes& s) { return s.other(); });
}

int only_rank(const RunEvidence& run, monitoring::Phase phase) {
  std::vector<double> means;
  for (const RankEvidence& rank : run.ranks) means.push_back(mean_of(rank.steps, phase));
  const auto most = std::max_element(means.begin(), means.end());
  if (means.size() < 2) return -1;
  for (auto other = means.begin(); other != means.end(); ++other) {
    if (other != most && 2 * *other > *most) return -1;
  }
  return static_cast<int>(most - means.begin());
}

std::string of_step(double seconds, double step) {
  return str(fixed(1e3 * seconds, 1), " of ", fixed(1e3 * step, 1), " ms");
}

}  // namespace dtrain::diagnose
