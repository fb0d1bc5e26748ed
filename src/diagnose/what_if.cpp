#include "diagnose/what_if.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;
using Cycles = std::vector<std::vector<Cycle>>;

double before_meeting(const StepTimes& s) {
  return s.of(Phase::kDataWait) + s.of(Phase::kH2d) + s.computing();
}

double after_meeting(const StepTimes& s) {
  return s.wall - before_meeting(s) - s.of(Phase::kAllReduceWait);
}

struct Times {
  std::vector<double> measured, changed;  // seconds of each cycle
};

// Without the cycles from begin to end.
double ratio(const Times& times, size_t begin, size_t end) {
  double before = 0, after = 0;
  for (size_t i = 0; i < times.measured.size(); ++i) {
    if (begin <= i && i < end) continue;
    before += times.measured[i];
    after += times.changed[i];
  }
  return after > 0 ? before / after - 1 : 0;
}

// Blocks of equal length, by their first cycles and, at the end, the number of cycles: steps that
// follow each other are alike, so blocks of them are left out, not single ones.
std::vector<size_t> block_ends(size_t cycles) {
  const size_t blocks = std::min<size_t>(10, cycles / 2);
  std::vector<size_t> ends = {0};
  for (size_t b = 1; b < blocks; ++b) ends.push_back(b * cycles / blocks);
  ends.push_back(cycles);
  return ends;
}

Gain jackknife(const Times& times, const std::vector<size_t>& ends) {
  if (times.measured.empty()) return {};
  Gain gain{.ratio = ratio(times, 0, 0), .error = std::numeric_limits<double>::infinity()};
  const size_t blocks = ends.size() - 1;
  if (blocks < 2) return gain;
  std::vector<double> left_out;
  double mean = 0;
  for (size_t b = 0; b < blocks; ++b) {
    left_out.push_back(ratio(times, ends[b], ends[b + 1]));
    mean += left_out.back() / static_cast<double>(blocks);
  }
  double sum = 0;
  for (const double value : left_out) sum += (value - mean) * (value - mean);
  gain.error = std::sqrt(sum * static_cast<double>(blocks - 1) / static_cast<double>(blocks));
  return gain;
}

// The cycles in which the change makes something planned shorter; none where that is nearly always,
// or never, or is not known. (What it leaves as it is, such as saves of another kind, is
// not among the planned ones.)
std::vector<size_t> rare_events(const std::vector<Steps>& ranks, const std::vector<Steps>& changed,
                                size_t cycles, const WhatIf& replay) {
  std::vector<size_t> events;
  for (size_t i = 0; replay.planned_per_step > 0 && i < cycles; ++i) {
    bool shorter = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      shorter = shorter || changed[rank][i].of(replay.planned) < ranks[rank][i].of(replay.planned);
    }
    if (shorter) events.push_back(i);
  }
  if (2 * events.size() >= cycles) events.clear();
  return events;
}

constexpr double kUnknownDeviation = 0.25;  // for one event alone, as a share of its duration

// Of an event that none of the measured steps has.
Gain gain_of_missing_event(const Times& times, const WhatIf& replay) {
  double step = 0;
  for (const double seconds : times.measured)
    step += seconds / static_cast<double>(times.measured.size());
  const double rate = std::min(1.0, replay.planned_per_step),
               saved = replay.event - replay.event_without;
  const double before = step + rate * replay.event, after = before - rate * saved;
  if (!(after > 0)) return {};
  return {.ratio = before / after - 1, .error = kUnknownDeviation * rate * saved / after};
}

// Of events that happen `per_step` times: how many of them are in the measured steps is a matter
// of chance.
Gain gain_of_events(const Times& times, const std::vector<size_t>& events, double per_step) {
  const auto count = static_cast<double>(times.measured.size()),
             often = static_cast<double>(events.size());
  double all = 0, all_changed = 0, during = 0, during_changed = 0, squares = 0;
  for (size_t i = 0; i < times.measured.size(); ++i) {
    all += times.measured[i];
    all_changed += times.changed[i];
  }
  for (const size_t i : events) {
    during += times.measured[i] / often;
    during_changed += times.changed[i] / often;
  }
  const double saved = during - during_changed;
  for (const size_t i : events)
    squares += std::pow(times.measured[i] - times.changed[i] - saved, 2);
  const double rate = std::min(1.0, per_step);
  const double before = (1 - rate) * (all - often * during) / (count - often) + rate * during;
  const double after =
      (1 - rate) * (all_changed - often * during_changed) / (count - often) + rate * during_changed;
  if (!(after > 0)) return {};
  const double error =
      often > 1 ? std::sqrt(squares / (often * (often - 1))) : kUnknownDeviation * saved;
  return {.ratio = before / after - 1, .error = rate * error / after};
}

std::vector<double> cycle_seconds(const Cycles& cycles) {
  std::vector<double> seconds = network_seconds(cycles);
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
      cycles[rank].push_back({after_meeting(steps[i - 1]) + before_meeting(steps[i]),
                              steps[i].of(Phase::kAllReduceWait)});
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

std::vector<Steps> replayed(const std::vector<Steps>& ranks, const WhatIf& replay) {
  std::vector<Steps> steps = ranks;
  for (size_t i = 0; !ranks.empty() && i < ranks[0].size(); ++i) {
    double network = ranks[0][i].of(Phase::kAllReduceWait);
    for (const Steps& rank : ranks) network = std::min(network, rank[i].of(Phase::kAllReduceWait));
    for (size_t rank = 0; rank < steps.size(); ++rank) {
      StepTimes& step = steps[rank][i];
      const double before = step.in_phases();
      if (replay.change) replay.change(rank, i, step);
      step.of(Phase::kAllReduceWait) -= (1 - replay.network) * network;
      step.wall += step.in_phases() - before;
    }
  }
  return steps;
}

Gain gain_of(const std::vector<Steps>& ranks, const WhatIf& replay) {
  const Cycles cycles = cycles_of(ranks);
  const size_t count = cycles.empty() ? 0 : cycles[0].size();
  const std::vector<Steps> changed = replayed(ranks, replay);
  const Times times{cycle_seconds(cycles), cycle_seconds(cycles_of(changed))};
  const std::vector<size_t> events = rare_events(ranks, changed, count, replay);
  Gain gain = replay.event > 0 ? gain_of_missing_event(times, replay)
              : events.empty() ? jackknife(times, block_ends(count))
                               : gain_of_events(times, events, replay.planned_per_step);
  gain.error = std::hypot(gain.error, replay.unseen);
  return gain;
}

}  // namespace dtrain::diagnose
