// Ranks for which the others wait, by their own phases: the wait itself shows only the victims.

#include <algorithm>
#include <array>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

constexpr double kSameRank = 0.6;  // of the steps: then it is one machine that is slow, otherwise it is everywhere

// What a rank computes itself. Waiting for data has causes of its own.
constexpr std::array kComputing = {Phase::kForward, Phase::kBackward, Phase::kOptimizer};

double computing(const StepTimes& step) {
  double seconds = 0;
  for (const Phase phase : kComputing) seconds += step.of(phase);
  return seconds;
}

// The median of all ranks but one.
double median_of_others(const std::vector<Steps>& ranks, size_t except, size_t step, Phase phase) {
  std::vector<double> values;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank != except) values.push_back(ranks[rank][step].of(phase));
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// By rank: the share of the steps in which it computed longest.
std::vector<double> shares_of_lateness(const std::vector<Steps>& ranks) {
  std::vector<double> shares(ranks.size());
  const size_t steps = ranks[0].size();
  for (size_t step = 0; step < steps; ++step) {
    size_t latest = 0;
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      if (computing(ranks[rank][step]) > computing(ranks[latest][step])) latest = rank;
    }
    shares[latest] += 1.0 / static_cast<double>(steps);
  }
  return shares;
}

// Each phase of the rank takes at most as long as on the others.
Change as_fast_as_others(const std::vector<Steps>& ranks, size_t late) {
  return [&ranks, late](size_t rank, size_t step, StepTimes& s) {
    if (rank != late) return;
    for (const Phase phase : kComputing) {
      double& seconds = s.phases[static_cast<size_t>(phase)];
      seconds = std::min(seconds, median_of_others(ranks, late, step, phase));
    }
  };
}

Finding late_rank(const std::vector<Steps>& ranks, size_t late) {
  Phase slowest = kComputing[0];
  double most = 0;
  for (const Phase phase : kComputing) {
    double others = 0;
    for (size_t step = 0; step < ranks[late].size(); ++step) others += median_of_others(ranks, late, step, phase);
    const double excess = mean_of(ranks[late], phase) - others / static_cast<double>(ranks[late].size());
    if (excess > most) {
      most = excess;
      slowest = phase;
    }
  }
  return {.cause = Cause::kLateRank,
          .rank = static_cast<int>(late),
          .evidence = str(of_step(most, mean_wall(ranks[late])), " more in ",
                          monitoring::kPhaseNames[static_cast<size_t>(slowest)], " than the other ranks"),
          .gain = gain_of(ranks, as_fast_as_others(ranks, late)),
          .setting = "",
          .otherwise = "if its machine kept up (dtrain doctor looks at it)"};
}

Finding rotating_rank(const std::vector<Steps>& ranks) {
  const auto mean_over_ranks = [&ranks](size_t, size_t step, StepTimes& s) {
    for (const Phase phase : kComputing) {
      double sum = 0;
      for (const Steps& rank : ranks) sum += rank[step].of(phase);
      s.phases[static_cast<size_t>(phase)] = sum / static_cast<double>(ranks.size());
    }
  };
  return {.cause = Cause::kRotatingRank,
          .rank = -1,
          .evidence = "another rank computes longest each time",
          .gain = gain_of(ranks, mean_over_ranks),
          .setting = "",
          .otherwise = "if all ranks were even"};
}

}  // namespace

std::vector<Finding> rank_causes(const RunEvidence& run) {
  const std::vector<Steps> ranks = run.steps();
  if (ranks.size() < 2 || ranks[0].empty()) return {};
  const std::vector<double> shares = shares_of_lateness(ranks);
  const auto latest = std::max_element(shares.begin(), shares.end());
  if (*latest < kSameRank) return {rotating_rank(ranks)};
  return {late_rank(ranks, static_cast<size_t>(latest - shares.begin()))};
}

}  // namespace dtrain::diagnose
