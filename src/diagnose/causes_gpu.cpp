// GPUs that run slower than they could, that wait for copies, or whose tensor cores are not used.

#include <algorithm>
#include <cmath>
#include <utility>

#include "diagnose/find_causes.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;

using Factors = std::vector<double>;  // one per rank: 1 for those that a cause does not hold back

size_t least_of(const Factors& factors) {
  return static_cast<size_t>(std::ranges::min_element(factors) - factors.begin());
}

// The one rank that is held back; -1: several are.
int only_one(const RunEvidence& run, const Factors& factors) {
  const auto held = std::ranges::count_if(factors, [](double factor) { return factor < 1; });
  return held == 1 ? rank_of(run, least_of(factors)) : -1;
}

std::string of_ranks(const Factors& factors) {
  const auto held = std::ranges::count_if(factors, [](double factor) { return factor < 1; });
  return held > 1 ? str(" (", held, " of ", factors.size(), " ranks)") : "";
}

Change shortened(std::vector<Phase> phases, Factors factors) {
  return [phases = std::move(phases), factors = std::move(factors)](size_t rank, size_t,
                                                                    StepTimes& s) {
    for (const Phase phase : phases) s.of(phase) *= factors[rank];
  };
}

// ---- clocks -------------------------------------------------------------------------------------

constexpr double kOften = 0.2;  // share of the time

bool too_hot(const Values& gpu) { return gpu[Quantity::kSlowedByHeat] > kOften; }

// In the readings in which nothing held it back. Without such a reading, the highest that the
// card allows.
double full_clock(const Values& gpu) {
  return gpu[Quantity::kFullSmClock] > 0 ? gpu[Quantity::kFullSmClock]
                                         : gpu[Quantity::kHighestSmClock];
}

// At the card's own limit it is as fast as it is sold to be.
bool capped(const Values& gpu) {
  return !too_hot(gpu) && gpu[Quantity::kSlowedByPower] > kOften &&
         gpu[Quantity::kPowerLimit] < 0.98 * gpu[Quantity::kDefaultPowerLimit];
}

// All ranks whose GPUs one cause holds back gain together: they wait for each other. Kernels that
// wait for memory gain less than the clock does.
void add_slow_clocks(const RunEvidence& run, Cause cause, bool (*holds)(const Values&),
                     Findings& found) {
  Factors factors;
  for (const RankEvidence& rank : run.ranks) {
    const double clock = rank.values[Quantity::kWorkingSmClock], full = full_clock(rank.values);
    factors.push_back(clock > 0 && clock < full && holds(rank.values) ? clock / full : 1);
  }
  const size_t worst = least_of(factors);
  if (!(factors[worst] < 1)) return;
  const Values& gpu = run.ranks[worst].values;
  const bool seen = gpu[Quantity::kFullSmClock] > 0;
  Finding finding{.cause = cause, .rank = only_one(run, factors)};
  finding.evidence = str("clock of ", fixed(gpu[Quantity::kWorkingSmClock] * 1e-6, 0), " of ",
                         seen ? "" : "at most ", fixed(full_clock(gpu) * 1e-6, 0), " MHz, ");
  if (cause == Cause::kHeat) {
    finding.evidence += str("too hot in ", percent(gpu[Quantity::kSlowedByHeat]), " of the time (",
                            fixed(gpu[Quantity::kGpuTemperature], 0), " C)");
    finding.otherwise = "with better cooling";
  } else {
    finding.evidence += str("at a power limit of ", fixed(gpu[Quantity::kPowerLimit], 0), " W");
    finding.setting = str("nvidia-smi -pl ", fixed(gpu[Quantity::kDefaultPowerLimit], 0));
  }
  finding.evidence += of_ranks(factors);
  if (!seen) finding.evidence += ", in every reading, so the gain is an upper bound";
  finding.without = WhatIf{.change = shortened({Phase::kForward, Phase::kBackward}, factors)};
  found.push_back(std::move(finding));
}

// ---- copies -------------------------------------------------------------------------------------

// The time of a copy over the link that the card could have, as a share of what it takes. Each
// generation of PCIe is twice as fast as the one before.
double part_over_full_link(const Values& gpu) {
  const double lanes = gpu[Quantity::kLinkWidth] / gpu[Quantity::kCardWidth];
  const double speed = std::exp2(gpu[Quantity::kLinkGeneration] - gpu[Quantity::kCardGeneration]);
  return std::min(1.0, (std::isnan(lanes) ? 1 : lanes) * (std::isnan(speed) ? 1 : speed));
}

bool has_old_generation(const Values& gpu) {
  return gpu[Quantity::kLinkGeneration] < gpu[Quantity::kCardGeneration];
}

// "4 of 16 PCIe lanes of generation 3 instead of 4"; what is not known is left out.
std::string link_text(const Values& gpu) {
  const bool lanes = gpu.knows(Quantity::kLinkWidth) && gpu.knows(Quantity::kCardWidth);
  std::string text =
      lanes ? str(gpu[Quantity::kLinkWidth], " of ", gpu[Quantity::kCardWidth], " PCIe lanes")
            : "PCIe";
  if (has_old_generation(gpu))
    text += str(" of generation ", gpu[Quantity::kLinkGeneration], " instead of ",
                gpu[Quantity::kCardGeneration]);
  return text;
}

std::string slot_text(const Values& gpu) {
  std::string text = "a slot";
  if (gpu.knows(Quantity::kCardWidth)) text += str(" with ", gpu[Quantity::kCardWidth], " lanes");
  if (has_old_generation(gpu)) text += str(" of generation ", gpu[Quantity::kCardGeneration]);
  return text;
}

void add_copies(const RunEvidence& run, Findings& found) {
  const RankEvidence& worst = run.ranks[worst_rank(run, Phase::kH2d)];
  const double seconds = mean_of(worst.steps, Phase::kH2d);
  if (seconds <= 0) return;
  Finding finding{
      .cause = Cause::kCopy,
      .rank = only_rank(run, Phase::kH2d),
      .evidence = str(of_step(seconds, mean_wall(worst.steps)), " copying batches to the device"),
      .otherwise = "if copies were free"};
  const Values& gpu = worst.values;
  if (part_over_full_link(gpu) < 1) {
    Factors parts;
    for (const RankEvidence& rank : run.ranks) parts.push_back(part_over_full_link(rank.values));
    finding.rank = only_one(run, parts);
    finding.evidence += str(", over ", link_text(gpu), of_ranks(parts));
    finding.otherwise = str("in ", slot_text(gpu));
    finding.without = WhatIf{.change = shortened({Phase::kH2d}, parts)};
  } else {
    finding.without = WhatIf{.change = times(Phase::kH2d, 0)};
  }
  found.push_back(std::move(finding));
}

constexpr double kTensorCores = 70;  // the first compute capability that has them

void add_precision(const RunEvidence& run, Findings& found) {
  const RankEvidence& rank = run.ranks[longest_computing(run)];
  if (!run.settings.gpu || !(rank.values[Quantity::kGpuCapability] >= kTensorCores) ||
      run.settings.precision != "fp32")
    return;
  const double computing = mean_computing(rank.steps), wall = mean_wall(rank.steps);
  if (computing < 0.5 * wall) return;
  found.push_back(
      {.cause = Cause::kPrecision,
       .evidence = str(of_step(computing, wall), " in forward and backward without tensor cores"),
       .setting = "--amp auto",
       .otherwise = "(dtrain tune measures what it gains)"});
}

}  // namespace

void add_gpu_causes(const RunEvidence& run, Findings& found) {
  add_slow_clocks(run, Cause::kHeat, too_hot, found);
  add_slow_clocks(run, Cause::kPower, capped, found);
  add_copies(run, found);
  add_precision(run, found);
}

}  // namespace dtrain::diagnose
