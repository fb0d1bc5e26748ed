// What a verdict could not look at.

#include <algorithm>
#include <cmath>
#include <set>

#include "diagnose/find_causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;

// Whether any rank, or any host, lacks it.
bool is_missing(const RunEvidence& run, Quantity quantity) {
  const auto lacks = [quantity](const auto& part) { return !part.values.knows(quantity); };
  if (measure::row_of(quantity).scope != measure::QuantityScope::kHost)
    return std::any_of(run.ranks.begin(), run.ranks.end(), lacks);
  return run.hosts.empty() || std::any_of(run.hosts.begin(), run.hosts.end(), lacks);
}

// What the causes need, in the order of the table of quantities. A rank on the CPU has no values of
// a GPU to lack.
std::vector<std::string> not_measured_for_causes(const RunEvidence& run) {
  std::set<Quantity> missing;
  for (const CauseRow& cause : cause_rows()) {
    for (const Quantity quantity : cause.needs) {
      if (measure::needs_gpu(measure::row_of(quantity)) && !run.settings.gpu) continue;
      if (is_missing(run, quantity)) missing.insert(quantity);
    }
  }
  std::vector<std::string> names;
  for (const Quantity quantity : missing) {
    const std::string name(measure::row_of(quantity).missing);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
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

std::vector<std::string> not_measured_of_gpus(const RunEvidence& run) {
  if (!run.settings.gpu) return {"copy and kernel launches: no GPU clock"};
  std::vector<std::string> names;
  for (const RankEvidence& rank : run.ranks) {
    const std::string missing = sensors_not_measured(rank.values);
    if (!missing.empty() && std::find(names.begin(), names.end(), missing) == names.end())
      names.push_back(missing);
  }
  return names;
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

}  // namespace

std::vector<std::string> not_measured(const RunEvidence& run) {
  std::vector<std::string> names = not_measured_of_gpus(run);
  if (run.ranks.size() > 1 && !std::isfinite(run.network.latency))
    names.emplace_back("the network's own cost");
  for (const std::string& name : not_measured_for_causes(run)) names.push_back(name);
  if (still_to_come(run, run.settings.evaluations, Phase::kEval, run.evaluations.count))
    names.emplace_back("evaluations: none yet");
  if (still_to_come(run, run.settings.checkpoints, Phase::kCheckpoint,
                    run.saves.count + run.saves_of_best.count))
    names.emplace_back("checkpoints: none yet");
  if (std::any_of(run.ranks.begin(), run.ranks.end(), crowding_unknown))
    names.emplace_back("fewer readers: half of them read too few samples alone");
  return names;
}

}  // namespace dtrain::diagnose
