// GPUs that run slower than they could, that wait for copies, or whose tensor cores are not used.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

// A rank whose GPU computes at a lower clock than it could. Kernels that wait for memory gain less.
void add_slow_clock(const RunEvidence& run, Cause cause, size_t rank, const std::string& why, Finding fix,
                    std::vector<Finding>& found) {
  const GpuUse& gpu = run.ranks[rank].gpu;
  fix.cause = cause;
  fix.rank = rank_of(run, rank);
  fix.evidence = str("clock of ", fixed(gpu.clock * 1e-6, 0), " of ", fixed(gpu.full_clock * 1e-6, 0), " MHz, ", why);
  fix.without = Replay{.change = [rank, slow = gpu.clock / gpu.full_clock](size_t r, size_t, StepTimes& s) {
    if (r != rank) return;
    s.phases[static_cast<size_t>(Phase::kForward)] *= slow;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= slow;
  }};
  found.push_back(std::move(fix));
}

void add_gpus(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kOften = 0.2;  // of the time
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const GpuUse& gpu = run.ranks[rank].gpu;
    if (!(gpu.clock > 0 && gpu.clock < gpu.full_clock)) continue;
    if (gpu.heat_limited > kOften) {
      add_slow_clock(run, Cause::kHeat, rank,
                     str("too hot in ", percent(gpu.heat_limited), " of the time (", fixed(gpu.temperature, 0), " C)"),
                     {.otherwise = "with better cooling"}, found);
    } else if (gpu.power_limited > kOften && gpu.power_limit < 0.98 * gpu.default_power_limit) {
      // At the card's own limit it is as fast as it is sold to be.
      add_slow_clock(run, Cause::kPower, rank, str("at a power limit of ", fixed(gpu.power_limit, 0), " W"),
                     {.setting = str("nvidia-smi -pl ", fixed(gpu.default_power_limit, 0))}, found);
    }
  }
}

void add_copies(const RunEvidence& run, std::vector<Finding>& found) {
  size_t worst = 0;
  for (size_t rank = 1; rank < run.ranks.size(); ++rank) {
    if (mean_of(run.ranks[rank].steps, Phase::kH2d) > mean_of(run.ranks[worst].steps, Phase::kH2d)) worst = rank;
  }
  const RankEvidence& evidence = run.ranks[worst];
  const double seconds = mean_of(evidence.steps, Phase::kH2d);
  if (seconds <= 0) return;
  Finding finding{.cause = Cause::kCopy,
                  .rank = only_rank(run, Phase::kH2d),
                  .evidence = str(of_step(seconds, mean_wall(evidence.steps)), " copying batches to the device"),
                  .otherwise = "if copies were free"};
  const GpuUse& gpu = evidence.gpu;
  if (gpu.link_width > 0 && gpu.link_width < gpu.card_width) {
    finding.evidence += str(", over ", gpu.link_width, " of ", gpu.card_width, " PCIe lanes");
    finding.otherwise = str("in a slot with ", gpu.card_width, " lanes");
    const double part = static_cast<double>(gpu.link_width) / gpu.card_width;
    finding.without = Replay{.change = [worst, part](size_t rank, size_t, StepTimes& s) {
      if (rank == worst) s.phases[static_cast<size_t>(Phase::kH2d)] *= part;
    }};
  } else {
    finding.without = Replay{.change = times(Phase::kH2d, 0)};
  }
  found.push_back(std::move(finding));
}

void add_precision(const RunEvidence& run, std::vector<Finding>& found) {
  const RankEvidence& rank = run.ranks[0];
  if (!run.settings.gpu || !rank.gpu.tensor_cores || run.settings.precision != "fp32") return;
  const double computing = mean_computing(rank.steps), wall = mean_wall(rank.steps);
  if (computing < 0.5 * wall) return;
  found.push_back({.cause = Cause::kPrecision,
                   .evidence = str(of_step(computing, wall), " in forward and backward without tensor cores"),
                   .setting = "--amp auto",
                   .otherwise = "(dtrain tune measures what it gains)"});
}

}  // namespace

std::vector<Finding> gpu_causes(const RunEvidence& run) {
  std::vector<Finding> found;
  if (run.ranks.empty()) return found;
  for (const auto& add : {add_gpus, add_copies, add_precision}) add(run, found);
  return found;
}

}  // namespace dtrain::diagnose
