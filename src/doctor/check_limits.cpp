// Memory, and what the system allows a process.

#include <algorithm>

#include "doctor/checks.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// Open MPI's segment, as in dist/process_limits.cpp
constexpr int64_t kSharedBytesPerRank = 4 * kMiB;
// What Docker gives by default, with which NCCL cannot start
constexpr int64_t kSharedBytesOfNccl = 64 * kMiB;
constexpr double kMostMemory = 0.8;  // share of the usable memory: activations come on top

using os::kNoLimit;

// What one rank allocates on its host, beside what a process has that has only started.
int64_t host_bytes(const Launch& launch, const RankFacts& rank) {
  const NetworkFacts& network = *launch.first().network;
  const int64_t ahead = network.batch_bytes * (launch.config.data.prefetch + 1);
  return rank.gpu ? ahead : ahead + 2 * network.model_bytes + network.optimizer_bytes;
}

Outcome check_memory(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.first().network.has_value(), launch.first().network_problem))
    return outcome;
  for (const HostRanks& host : hosts_of(launch)) {
    const os::Facts& facts = host.machine();
    const std::optional<int64_t> usable = os::usable_memory(facts);
    if (!outcome.can_see(usable.has_value(), launch, host.name)) continue;
    int64_t needed = 0;
    for (const RankFacts* rank : host.ranks) needed += host_bytes(launch, *rank);
    if (static_cast<double>(needed) <= kMostMemory * static_cast<double>(*usable)) continue;
    const bool limited =
        facts.memory_limit && *facts.memory_limit < facts.memory.value_or(kNoLimit);
    outcome.add(
        host, needed > *usable ? Severity::kBlocks : Severity::kSlows,
        needed > *usable
            ? "the ranks need more memory than the host has left: one of them would be killed"
            : "the ranks need most of the memory that the host has left, and activations come on "
              "top",
        str(host.ranks.size(), host.ranks.size() == 1 ? " rank needs " : " ranks need ",
            bytes(needed), " for weights, gradients, moments and batches; ", bytes(*usable),
            " can be used",
            limited ? str(" within the control group's ", bytes(*facts.memory_limit)) : ""),
        limited ? "docker run --memory, resources.limits.memory in Kubernetes, or sbatch --mem; or "
                  "a smaller --batch-size"
                : "--data.prefetch 1, a smaller --batch-size, or fewer ranks on this host");
  }
  return outcome;
}

void check_shared_memory(Outcome& outcome, const Launch& launch, const HostRanks& host) {
  if (host.ranks.size() == 1) return;
  const std::optional<int64_t> left = host.machine().free_shared_memory;
  if (!outcome.can_see(left.has_value(), launch, host.name)) return;
  const auto ranks = static_cast<int64_t>(host.ranks.size());
  const auto& variables = host.ranks.front()->variables;
  const bool nccl = host.ranks.front()->gpu && !variables.contains("NCCL_SHM_DISABLE");
  const std::string more =
      "docker run --shm-size 8g or --ipc host, shm_size in compose; else remove old files in "
      "/dev/shm";
  if (nccl && *left <= kSharedBytesOfNccl) {
    outcome.add(host, Severity::kBlocks, "/dev/shm is too small for NCCL, which fails at its start",
                str(bytes(*left), " free for ", ranks, " ranks"), more);
  } else if (*left < ranks * kSharedBytesPerRank) {
    outcome.add(
        host, Severity::kSlows,
        "/dev/shm is too small for the messages of MPI, which take TCP instead: that is slower",
        str(bytes(*left), " free for ", ranks, " ranks, which need ",
            bytes(ranks * kSharedBytesPerRank)),
        more);
  }
}

void check_open_files(Outcome& outcome, const Launch& launch, const RankFacts& rank) {
  const auto& limit = rank.machine.open_files;
  if (!outcome.can_see(limit.has_value(), launch, rank.node)) return;
  // Libraries, logs and the run's files; connections of MPI and NCCL with every rank; readers.
  const int64_t needed = 128 + 2 * static_cast<int64_t>(launch.ranks.size()) + rank.readers;
  if (limit->soft >= needed) return;
  outcome.add(rank, Severity::kBlocks, "a rank may not open enough files",
              str("ulimit -n is ", limit->soft, ", and about ", needed, " are needed"),
              str("ulimit -n ", std::max<int64_t>(4096, needed),
                  " before mpirun; on other hosts in /etc/security/limits.conf"));
}

void check_processes(Outcome& outcome, const Launch& launch, const HostRanks& host) {
  const os::Facts& facts = host.machine();
  if (!outcome.can_see(facts.processes || facts.process_limit, launch, host.name)) return;
  // Threads count as processes. Each rank has some for MPI, metrics and the watchdog, and on a
  // GPU for CUDA and NCCL.
  const int64_t own = host.ranks.front()->gpu ? 24 : 8;
  const int64_t needed =
      host.threads() + host.readers() + own * static_cast<int64_t>(host.ranks.size());
  const int64_t others = facts.threads_of_user.value_or(0);  // some of them are this command's
  if (facts.processes && facts.processes->soft != kNoLimit &&
      facts.processes->soft - others < needed) {
    outcome.add(host, Severity::kBlocks, "the user may not start enough threads",
                str("ulimit -u is ", facts.processes->soft, ", ", others,
                    " are running, and about ", needed, " are needed"),
                str("ulimit -u ", std::max<int64_t>(4096, needed + others)));
  }
  const int64_t limit = facts.process_limit.value_or(kNoLimit);
  const int64_t left = limit == kNoLimit ? kNoLimit : limit - facts.processes_used.value_or(0);
  if (left < needed) {
    outcome.add(host, Severity::kBlocks, "the control group may not have enough threads",
                str(left, " of ", limit, " are left, and about ", needed, " are needed"),
                "docker run --pids-limit -1");
  }
}

Outcome check_file_size(const Launch& launch) {
  Outcome outcome;
  const auto& limit = launch.first().machine.file_size;  // rank 0 alone writes
  if (!outcome.can_judge(limit.has_value(), "unknown")) return outcome;
  if (limit->soft == kNoLimit) return outcome;
  const auto& network = launch.first().network;
  if (!outcome.can_judge(network.has_value(), launch.first().network_problem)) return outcome;
  const int64_t largest = std::max(network->model_bytes, network->optimizer_bytes) + kMiB;
  if (limit->soft >= largest) return outcome;
  outcome.add(launch.first(), Severity::kBlocks,
              "a checkpoint has a file that is larger than this process may write",
              str("ulimit -f is ", bytes(limit->soft), ", the largest file has ", bytes(largest)),
              "ulimit -f unlimited");
  return outcome;
}

Outcome check_locked_memory(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(hosts_of(launch).size() > 1, "one host")) return outcome;
  for (const RankFacts& rank : launch.ranks) {
    const os::Facts& facts = rank.machine;
    const bool known = facts.infiniband_devices && facts.locked_memory;
    if (!outcome.can_see(known, launch, rank.node)) continue;
    if (*facts.infiniband_devices > 0 && facts.locked_memory->soft != kNoLimit) {
      outcome.add(
          rank, Severity::kSlows,
          "InfiniBand needs locked memory, and little is allowed: MPI and NCCL fail or use TCP",
          str("ulimit -l is ", bytes(facts.locked_memory->soft)),
          "ulimit -l unlimited; docker run --ulimit memlock=-1");
    }
  }
  return outcome;
}

void check_address_space(Outcome& outcome, const Launch& launch, const RankFacts& rank) {
  const auto& limit = rank.machine.address_space;
  if (!outcome.can_see(limit.has_value(), launch, rank.node)) return;
  if (limit->soft != kNoLimit) {
    outcome.add(rank, rank.gpu ? Severity::kBlocks : Severity::kNote,
                rank.gpu ? "CUDA reserves more addresses than the process may have"
                         : "the addresses of the process are limited: an allocation can fail "
                           "though memory is free",
                str("ulimit -v is ", bytes(limit->soft)), "ulimit -v unlimited");
  }
}

}  // namespace

Checks limit_checks() {
  return {{"memory per rank", check_memory},
          {"/dev/shm", of_each_host<check_shared_memory>},
          {"open files", of_each_rank<check_open_files>},
          {"threads allowed", of_each_host<check_processes>},
          {"file size", check_file_size},
          {"locked memory", check_locked_memory},
          {"address space", of_each_rank<check_address_space>}};
}

}  // namespace dtrain::doctor
