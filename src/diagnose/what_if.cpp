#include "diagnose/what_if.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;
using Cycles = std::vector<std::vector<Cycle>>;

double before_meeting(const StepTimes& s) {
  return s.of(Phase::kDataWait) + s.of(Phase::kH2d) + s.of(Phase::kForward) + s.of(Phase::kBackward);
}

double after_meeting(const StepTimes& s) { return s.wall - before_meeting(s) - s.of(Phase::kAllReduceWait); }

struct Times {
  std::vector<double> measured, changed;  // by cycle
};

double ratio(std::span<const double> measured, std::span<const double> changed, size_t begin, size_t end) {
  double before = 0, after = 0;  // without the cycles from begin to end
  for (size_t i = 0; i < measured.size(); ++i) {
    if (begin <= i && i < end) continue;
    before += measured[i];
    after += changed[i];
  }
  return after > 0 ? before / after - 1 : 0;
}

Gain jackknife(const Times& times) {
  const size_t cycles = times.measured.size();
  if (cycles == 0) return {};
  const auto without = [&](size_t begin, size_t end) { return ratio(times.measured, times.changed, begin, end); };
  Gain gain{.ratio = without(0, 0), .error = std::numeric_limits<double>::infinity()};
  // Steps that follow each other are alike: blocks of them are left out, not single ones.
  const size_t blocks = std::min<size_t>(10, cycles / 2);
  if (blocks < 2) return gain;
  std::vector<double> left_out;
  double mean = 0;
  for (size_t b = 0; b < blocks; ++b) {
    left_out.push_back(without(b * cycles / blocks, (b + 1) * cycles / blocks));
    mean += left_out.back() / static_cast<double>(blocks);
  }
  double sum = 0;
  for (const double value : left_out) sum += (value - mean) * (value - mean);
  gain.error = std::sqrt(sum * static_cast<double>(blocks - 1) / static_cast<double>(blocks));
  return gain;
}

std::vector<double> cycle_seconds(const Cycles& cycles, std::span<const double> network) {
  std::vector<double> seconds(network.begin(), network.end());
  for (size_t i = 0; i < seconds.size(); ++i) {
    double last = 0;
    for (const std::vector<Cycle>& rank : cycles) last = std::max(last, rank[i].own);
    seconds[i] += last;
  }
  return seconds;
}

}  // namespace

Cycles cycles_of(const std::vector<Steps>& ranks) {
  Cycles cycles(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Steps& steps = ranks[rank];
    for (size_t i = 1; i < steps.size(); ++i) {
      cycles[rank].push_back(
          {after_meeting(steps[i - 1]) + before_meeting(steps[i]), steps[i].of(Phase::kAllReduceWait)});
    }
  }
  return cycles;
}

std::vector<double> network_seconds(const Cycles& cycles) {
  std::vector<double> least;
  for (size_t i = 0; !cycles.empty() && i < cycles[0].size(); ++i) {
    double wait = cycles[0][i].wait;
    for (const std::vector<Cycle>& rank : cycles) wait = std::min(wait, rank[i].wait);
    least.push_back(wait);
  }
  return least;
}

Gain gain_of(const std::vector<Steps>& ranks, const Change& change, double network) {
  std::vector<Steps> changed = ranks;
  for (size_t rank = 0; rank < changed.size(); ++rank) {
    for (size_t i = 0; i < changed[rank].size(); ++i) {
      StepTimes& step = changed[rank][i];
      const double before = step.in_phases();
      if (change) change(rank, i, step);
      step.wall += step.in_phases() - before;
    }
  }
  const Cycles cycles = cycles_of(ranks);
  std::vector<double> waits = network_seconds(cycles);
  const std::vector<double> measured = cycle_seconds(cycles, waits);
  for (double& wait : waits) wait *= network;
  return jackknife({measured, cycle_seconds(cycles_of(changed), waits)});
}

}  // namespace dtrain::diagnose
