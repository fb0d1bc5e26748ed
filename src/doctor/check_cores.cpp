// Cores: how many the ranks have for their threads, how fast they are, and who else uses them.

#include <algorithm>
#include <cmath>

#include "dist/affinity.h"
#include "doctor/checks.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

constexpr double kOtherLoad = 0.25;  // share of a host's usable cores
constexpr double kStolen = 0.05;     // share of a host's cores

std::string cores_text(double cores) {
  return str(cores == std::floor(cores) ? fixed(cores, 0) : fixed(cores, 1),
             cores == 1 ? " core" : " cores");
}

std::string threads_text(int threads) {
  return str(threads, threads == 1 ? " computing thread" : " computing threads");
}

// Why the ranks of a host have as few cores as they have, and the setting that gives them more; no
// setting where they have all of them.
struct Binding {
  std::string evidence, fix;
};
Binding binding_of(const HostRanks& host) {
  const os::Facts& facts = host.machine();
  const size_t online = facts.online_cores.value_or(std::vector<int>()).size();
  const auto cores = static_cast<size_t>(host.cores());
  if (cores >= online) return {"all of the host", ""};
  if (facts.cpuset && facts.cpuset->size() == cores) {
    return {str("the control group has these of ", online),
            "docker run --cpuset-cpus 0-N, or sbatch --cpus-per-task N"};
  }
  return {str("the ranks are bound to these of ", online),
          "mpirun --bind-to none, without taskset; or srun --cpus-per-task N"};
}

void check_binding(Outcome& outcome, const Launch& launch, const HostRanks& host) {
  const int cores = host.cores(), ranks = static_cast<int>(host.ranks.size());
  if (!outcome.can_see(cores != 0, launch, host.name)) return;
  const Binding binding = binding_of(host);
  const bool gpu = host.ranks.front()->gpu.has_value();
  const auto fix = [&](const std::string& otherwise) {
    return binding.fix.empty() ? otherwise : binding.fix;
  };
  const std::string have = str(" on ", cores_text(cores), " (", binding.evidence, ")");
  if (ranks > cores) {
    outcome.add(
        host, Severity::kSlows,
        "there are more ranks than cores: in every step each waits for ranks that wait for a core",
        str(ranks, " ranks", have), fix(str("mpirun -np ", cores, " dtrain ... on this host")));
  } else if (host.busy_threads() > cores) {
    const std::string threads =
        gpu ? str(ranks, " and ", host.readers(), " threads of ranks and readers")
            : threads_text(host.threads());
    outcome.add(host, Severity::kSlows,
                "there are more threads than cores: a step waits for threads that wait for a core",
                threads + have,
                fix(gpu ? str("--data.workers ", std::max(1, (cores - ranks) / ranks))
                        : str("--device.threads ", std::max(1, cores / ranks))));
  }
  const std::string variable = host.ranks.front()->variable("OMP_NUM_THREADS");
  // Threads per rank for which there are cores
  const int usable =
      dist::within_quota({cores, ranks}, host.machine().cpu_quota.value_or(cores), ranks).threads();
  if (!gpu && !variable.empty() && host.threads() < usable * ranks) {
    outcome.add(host, Severity::kNote,
                "there are fewer threads than cores: the others are left to other work",
                str(threads_text(host.threads()), have, ", OMP_NUM_THREADS=", variable),
                str("unset OMP_NUM_THREADS, or --device.threads ", usable,
                    ", if nothing else needs the cores"));
  }
  if (!gpu && host.readers() > std::max(ranks, cores)) {
    outcome.add(
        host, Severity::kSlows,
        "there are more reader threads than cores: they take time from the threads that compute",
        str(host.readers(), " readers", have), str("--data.workers ", std::max(1, cores / ranks)));
  }
}

void check_quota(Outcome& outcome, const Launch& launch, const HostRanks& host) {
  const std::optional<double> quota = host.machine().cpu_quota;
  if (!outcome.can_see(quota.has_value(), launch, host.name)) return;
  if (*quota >= host.busy_threads()) return;
  const auto ranks = static_cast<double>(host.ranks.size());
  outcome.add(
      host, Severity::kSlows,
      "the control group's time limit is below what the threads use: in a part of every 0.1 s none "
      "of them runs",
      str("a limit of ", cores_text(*quota), " for ", host.busy_threads(),
          host.busy_threads() == 1 ? " thread of " : " threads of ", host.ranks.size(),
          ranks == 1 ? " rank" : " ranks"),
      *quota >= 2 * ranks
          ? str("--device.threads ", static_cast<int>(*quota / ranks))
          : "docker run --cpus N, resources.limits.cpu in Kubernetes, or sbatch --cpus-per-task N");
}

void check_governor(Outcome& outcome, const Launch& launch, const HostRanks& host) {
  const os::Facts& facts = host.machine();
  if (!outcome.can_see(facts.governor.has_value(), launch, host.name)) return;
  if (*facts.governor == "performance") return;
  // With these drivers the hardware chooses the clock, and follows load quickly under any governor.
  const std::string driver = facts.scaling_driver.value_or("");
  const bool by_hardware = driver == "intel_pstate" || driver == "amd-pstate-epp";
  const bool slow = *facts.governor == "powersave" && !by_hardware;
  outcome.add(host, slow ? Severity::kSlows : Severity::kNote,
              slow ? "the cores run at their lowest clock"
                   : "the cores' clock follows the load with a delay",
              str("governor ", *facts.governor, driver.empty() ? "" : str(" of ", driver)),
              "sudo cpupower frequency-set -g performance");
}

void check_other_load(Outcome& outcome, const Launch& launch, const HostRanks& host) {
  const RankFacts& rank = *host.ranks.front();
  const double cores = host.cores();
  if (!outcome.can_see(rank.other_cpu && cores != 0, launch, host.name)) return;
  const auto online =
      static_cast<double>(rank.machine.online_cores.value_or(std::vector<int>()).size());
  // Idle cores of the host come first: the others may use those that the ranks do not have.
  const double taken =
      online > cores ? std::max(0.0, *rank.other_cpu - (online - cores)) : *rank.other_cpu;
  if (taken > kOtherLoad * cores) {
    outcome.add(host, Severity::kSlows, "other processes use the cores of the ranks",
                str("they keep ", fixed(*rank.other_cpu, 1), " of ",
                    cores_text(online > 0 ? online : cores), " busy"),
                "top shows them; end them, or start on another host");
  }
  if (rank.stolen_cpu && *rank.stolen_cpu > kStolen * std::max(1.0, online)) {
    outcome.add(
        host, Severity::kSlows, "the hypervisor gives the cores of this virtual machine to others",
        str(fixed(*rank.stolen_cpu, 1), " of ", cores_text(online), " stolen"),
        "vmstat 1 5 shows it as st; take a virtual machine with cores of its own, or another host");
  }
}

}  // namespace

Checks core_checks() {
  return {{"core binding", of_each_host<check_binding>},
          {"CPU time limit", of_each_host<check_quota>},
          {"governor", of_each_host<check_governor>},
          {"other load", of_each_host<check_other_load>}};
}

}  // namespace dtrain::doctor
