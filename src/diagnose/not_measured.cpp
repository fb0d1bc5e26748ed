// What a verdict could not look at.

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "diagnose/find_causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;

using Names = std::vector<std::string>;

// Whether any rank, or any host, lacks it. A rank on the CPU has no values of a GPU to lack.
bool is_missing(const RunEvidence& run, Quantity quantity) {
  const measure::QuantityRow& row = measure::row_of(quantity);
  if (measure::needs_gpu(row) && !run.settings.gpu) return false;
  const auto lacks = [quantity](const auto& part) { return !part.values.knows(quantity); };
  if (row.scope != measure::QuantityScope::kHost) return std::ranges::any_of(run.ranks, lacks);
  return run.hosts.empty() || std::ranges::any_of(run.hosts, lacks);
}

// What the sensors of a GPU did not tell, and why. Its clock counts only while it has work.
std::string sensors_not_measured(const Values& gpu) {
  const bool busy = gpu.knows(Quantity::kGpuUtilization),
             slowed = gpu.knows(Quantity::kSlowedByPower);
  if (!busy && !slowed) return "power, heat and idle time of the GPU: no NVML";
  if (!slowed) return "power and heat of the GPU: it does not say what slows it down";
  if (!busy) return "clock and idle time of the GPU: it does not say how busy it is";
  if (gpu.knows(Quantity::kWorkingSmClock)) return "";
  return gpu[Quantity::kGpuUtilization] < 0.5 ? "clock of the GPU: it was mostly idle"
                                              : "clock of the GPU: it does not tell it";
}

// Whether the readers of a rank keep it waiting, and nothing tells if fewer would be faster.
bool crowding_unknown(const RankEvidence& rank) {
  const bool waits = mean_of(rank.steps, Phase::kDataWait) > kLeastGain * mean_wall(rank.steps);
  return waits && rank.readers() > 1 && !rank.values.knows(Quantity::kFewSampleSeconds);
}

// Whether something that is planned this often, and not only at the end of the run, has not
// happened yet.
bool still_to_come(const RunEvidence& run, double per_step, Phase phase, int64_t so_far) {
  const Steps& steps = run.ranks[worst_rank(run, phase)].steps;
  return so_far == 0 && !(mean_of(steps, phase) > 0) && per_step * run.total_steps() > 1.5;
}

// In words; "" stands for what has no name.
Names missing(const RunEvidence& run, const Need& need) {
  const auto words = [](bool missing, std::string_view text) {
    return missing ? Names{std::string(text)} : Names();
  };
  Names names;
  switch (need.kind) {
    case NeedKind::kGpuClock:
      return words(!run.settings.gpu, "copy and kernel launches: no GPU clock");
    case NeedKind::kGpuSensors:
      for (const RankEvidence& rank : run.ranks) {
        if (run.settings.gpu) names.push_back(sensors_not_measured(rank.values));
      }
      return names;
    case NeedKind::kNetworkCost:
      return words(run.ranks.size() > 1 && !std::isfinite(run.network.latency),
                   "the network's own cost");
    case NeedKind::kValue:
      return words(is_missing(run, need.quantity), measure::row_of(need.quantity).missing);
    case NeedKind::kEvaluations:
      return words(
          still_to_come(run, run.settings.evaluations, Phase::kEval, run.evaluations.count),
          "evaluations: none yet");
    case NeedKind::kCheckpoints:
      return words(still_to_come(run, run.settings.checkpoints, Phase::kCheckpoint,
                                 run.saves.count + run.saves_of_best.count),
                   "checkpoints: none yet");
    case NeedKind::kFewReaders:
      return words(std::ranges::any_of(run.ranks, crowding_unknown),
                   "fewer readers: half of them read too few samples alone");
  }
  return names;
}

}  // namespace

std::vector<std::string> not_measured(const RunEvidence& run) {
  std::set<Need> needs;
  for (const CauseRow& cause : cause_rows()) needs.insert(cause.needs.begin(), cause.needs.end());
  Names names;
  for (const Need& need : needs) {
    for (std::string& name : missing(run, need)) {
      if (!name.empty() && std::ranges::find(names, name) == names.end())
        names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace dtrain::diagnose
