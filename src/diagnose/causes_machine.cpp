// Cores that a rank had to wait for, and memory that only grows.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

// A rank's network waited `seconds` of a step for cores, while it computed.
Change sooner_by(std::vector<double> seconds) {
  return [seconds = std::move(seconds)](size_t rank, size_t, StepTimes& s) {
    const double computing = s.of(Phase::kForward) + s.of(Phase::kBackward);
    if (computing <= 0) return;
    const double left = std::max(0.0, 1 - seconds[rank] / computing);
    s.phases[static_cast<size_t>(Phase::kForward)] *= left;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= left;
  };
}

int worst_of(const std::vector<double>& seconds) {
  return static_cast<int>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

// The network waits for a core while other threads run: those of other processes, and the readers of the ranks, whose
// work has to be done in any case.
double part_of_others(const RunEvidence& run, const RankEvidence& rank) {
  const HostUse& host = run.hosts[static_cast<size_t>(rank.host)];
  if (!(host.others_cpu > 0)) return 0;
  double beside = 0;
  for (const RankEvidence& other : run.ranks) {
    if (other.host == rank.host && std::isfinite(other.cores.side_cpu)) beside += other.cores.side_cpu;
  }
  return host.others_cpu / (host.others_cpu + beside);
}

void add_oversubscribed(const RunEvidence& run, std::vector<Finding>& found) {
  std::vector<double> by_others, by_own;
  for (const RankEvidence& rank : run.ranks) {
    if (!std::isfinite(rank.cores.run_delay) || run.hosts.empty()) return;
    const double part = part_of_others(run, rank);
    by_others.push_back(rank.cores.run_delay * part);
    by_own.push_back(rank.cores.run_delay * (1 - part));
  }
  const int rank = worst_of(by_others);
  const RankEvidence& worst = run.ranks[static_cast<size_t>(rank)];
  const HostUse& host = run.hosts[static_cast<size_t>(worst.host)];
  const double step = mean_wall(worst.steps);
  found.push_back({.cause = Cause::kOversubscribed,
                   .rank = run.ranks.size() > 1 ? rank : -1,
                   .evidence = str(of_step(worst.cores.run_delay, step), " waiting for a core; other processes use ",
                                   fixed(host.others_cpu / step, 1), " of ", fixed(host.cores, 0), " cores"),
                   .gain = gain_of(run.steps(), sooner_by(by_others)),
                   .setting = "",
                   .otherwise = "without them"});
  if (run.settings.threads < 2) return;
  const RankEvidence& crowded = run.ranks[static_cast<size_t>(worst_of(by_own))];
  if (!(crowded.cores.cores < crowded.cores.compute_threads)) return;
  const auto fitting = static_cast<int64_t>(std::max(1.0, crowded.cores.cores));
  found.push_back({.cause = Cause::kOversubscribed,
                   .rank = -1,
                   .evidence = str(crowded.cores.compute_threads, " threads of the network on ",
                                   fixed(crowded.cores.cores, 0), " cores"),
                   .gain = gain_of(run.steps(), sooner_by(by_own)),
                   .setting = str("--device.threads ", fitting),
                   .otherwise = ""});
}

void add_stopped(const RunEvidence& run, Cause cause, const std::vector<double>& seconds, const char* evidence,
                 const char* otherwise, std::vector<Finding>& found) {
  const int rank = worst_of(seconds);
  if (!(seconds[static_cast<size_t>(rank)] > 0)) return;
  found.push_back({.cause = cause,
                   .rank = run.ranks.size() > 1 ? rank : -1,
                   .evidence = str(of_step(seconds[static_cast<size_t>(rank)],
                                           mean_wall(run.ranks[static_cast<size_t>(rank)].steps)),
                                   evidence),
                   .gain = gain_of(run.steps(), sooner_by(seconds)),
                   .setting = "",
                   .otherwise = otherwise});
}

void add_memory_growth(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kManySteps = 10000, kMuch = 1 << 30;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const double growth = run.ranks[rank].memory_growth;
    if (!(growth * kManySteps > kMuch)) continue;
    found.push_back({.cause = Cause::kMemoryGrowth,
                     .rank = run.ranks.size() > 1 ? static_cast<int>(rank) : -1,
                     .evidence = str("memory grows by ", human_bytes(growth), " per step, to ",
                                     human_bytes(run.ranks[rank].memory), " now"),
                     .gain = std::nullopt,
                     .setting = "",
                     .otherwise = "the run will end when the host has none left"});
  }
}

}  // namespace

std::vector<Finding> machine_causes(const RunEvidence& run) {
  std::vector<Finding> found;
  if (run.ranks.empty()) return found;
  add_oversubscribed(run, found);
  std::vector<double> throttled, stolen;
  for (const RankEvidence& rank : run.ranks) {
    throttled.push_back(std::isfinite(rank.cores.throttled) ? rank.cores.throttled : 0);
    const bool known = !run.hosts.empty() && std::isfinite(run.hosts[static_cast<size_t>(rank.host)].steal);
    const HostUse* host = known ? &run.hosts[static_cast<size_t>(rank.host)] : nullptr;
    stolen.push_back(host ? host->steal / std::max(1.0, host->cores) : 0);
  }
  add_stopped(run, Cause::kCpuLimit, throttled, " stopped by the CPU limit of its control group",
              "with a higher limit (cpu.max; resources.limits.cpu in Kubernetes)", found);
  add_stopped(run, Cause::kSteal, stolen, " taken by the hypervisor for other machines", "on a machine of its own",
              found);
  add_memory_growth(run, found);
  return found;
}

}  // namespace dtrain::diagnose
