// GPUs: whether each rank has one of its own, what drives them, and what connects them.

#include <algorithm>
#include <map>
#include <set>

#include "doctor/checks.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

constexpr double kPowerCap = 0.95;   // share of the card's default power limit
constexpr int kNarrow = 8;           // lanes: with fewer, copies of a batch are noticeable
constexpr double kUsedMemory = 0.1;  // share of the memory of a GPU; this program itself takes less
constexpr double kHot = 85;          // degrees Celsius
constexpr const char* kNotReported = "the card does not report it";

using config::Backend;
using config::DeviceType;

// A check that looks at each rank's GPU by itself.
using JudgeGpu = void (*)(Outcome&, const Launch&, const RankFacts&, const GpuFacts&);
template <JudgeGpu judge>
Outcome of_each_gpu(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  for (const RankFacts& rank : launch.ranks) {
    if (rank.gpu) judge(outcome, launch, rank, *rank.gpu);
  }
  return outcome;
}

std::string nvidia_smi(const GpuFacts& gpu, const std::string& options) {
  return str("sudo nvidia-smi -i ", gpu.bus_id, " ", options);
}

// What the driver does not tell of a link: only root sees it.
std::string lspci(const GpuFacts& gpu) {
  return str("sudo lspci -vv -s ", gpu.bus_id, " | grep Lnk");
}

Outcome check_ranks_to_gpus(const Launch& launch) {
  Outcome outcome;
  bool some_cpu = false;
  for (const RankFacts& rank : launch.ranks) {
    some_cpu = some_cpu || rank.device == "cpu";
    if (rank.device.empty()) {
      outcome.add(rank, Severity::kBlocks, "the rank has no device to compute on",
                  rank.device_problem, "nvidia-smi on the host; or --device.type cpu");
    }
  }
  if (launch.has_gpus() && some_cpu) {
    for (const RankFacts& rank : launch.ranks) {
      if (rank.device != "cpu") continue;
      outcome.add(rank, Severity::kBlocks,
                  "some ranks have a GPU and others none: all need the same kind of device",
                  "it would use the CPU",
                  "--device.type cpu; or start ranks on hosts with GPUs only");
    }
  }
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  for (const HostRanks& host : hosts_of(launch)) {
    std::set<std::string> used;
    for (const RankFacts* rank : host.ranks) {
      if (rank->gpu) used.insert(rank->gpu->uuid);
    }
    const int visible = host.ranks.front()->visible_gpus,
              idle = visible - static_cast<int>(used.size());
    if (used.empty() || idle <= 0) continue;
    outcome.add(host, Severity::kNote, "some GPUs of the host would not be used",
                str(used.size(), " of ", visible, " have a rank"),
                str("mpirun -np ", visible, " dtrain ..."));
  }
  std::set<std::string> names;
  for (const RankFacts& rank : launch.ranks) {
    if (rank.gpu) names.insert(rank.gpu->name);
  }
  if (names.size() > 1) {
    for (const RankFacts& rank : launch.ranks) {
      outcome.add(rank, Severity::kSlows,
                  "the GPUs are of different kinds: every step takes as long as the slowest needs",
                  join(std::vector<std::string>(names.begin(), names.end()), ", "),
                  "nvidia-smi -L lists them; choose those of one kind with CUDA_VISIBLE_DEVICES, "
                  "or hosts of one kind");
    }
  }
  return outcome;
}

Outcome check_one_rank_per_gpu(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  std::map<std::string, std::vector<const RankFacts*>> users;
  for (const RankFacts& rank : launch.ranks) {
    if (rank.gpu) users[rank.gpu->uuid].push_back(&rank);
  }
  for (const auto& [uuid, ranks] : users) {
    if (ranks.size() < 2) continue;
    const bool nccl = launch.config.dist.backend == Backend::kNccl;
    const RankFacts& one = *ranks.front();
    for (const RankFacts* rank : ranks) {
      outcome.add(*rank, nccl ? Severity::kBlocks : Severity::kSlows,
                  nccl ? "several ranks have one GPU, which NCCL refuses"
                       : "several ranks have one GPU: they alternate on it, and gradients travel "
                         "through the host",
                  str("GPU ", one.gpu->bus_id, " of ", one.node, " (", one.gpu->name, ")"),
                  str("mpirun -np ", std::max(1, one.visible_gpus),
                      " dtrain ... (one rank per GPU of a host)"));
    }
  }
  return outcome;
}

Outcome check_driver(const Launch& launch) {
  Outcome outcome;
  bool any = false;
  for (const RankFacts& rank : launch.ranks) {
    any = any || rank.gpu || (!rank.device_problem.empty() && !rank.device.empty());
    // A rank without a device has a finding already.
    if (rank.device_problem.empty() || rank.device.empty()) continue;
    if (launch.config.device.type == DeviceType::kCpu) continue;
    outcome.add(rank, Severity::kSlows, "a GPU cannot be used, and the rank would use the CPU",
                rank.device_problem,
                "nvidia-smi shows the driver; install driver 580 or newer, and start containers "
                "with docker run --gpus all; or --device.type cpu");
  }
  std::set<std::string> versions;
  for (const RankFacts& rank : launch.ranks) {
    if (!rank.driver.empty()) versions.insert(rank.driver);
  }
  if (versions.size() > 1) {
    for (const HostRanks& host : hosts_of(launch)) {
      outcome.add(host, Severity::kNote, "the hosts have different drivers",
                  join(std::vector<std::string>(versions.begin(), versions.end()), ", "),
                  "nvidia-smi shows the driver of a host; install the same driver on all hosts");
    }
  }
  if (!any) outcome.unchecked.emplace_back("no GPU");
  return outcome;
}

Outcome check_nccl(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  const Backend backend = launch.config.dist.backend;
  const bool used =
      launch.ranks.size() > 1 && (backend == Backend::kAuto || backend == Backend::kNccl);
  for (const RankFacts& rank : launch.ranks) {
    if (rank.nccl.find("built with") != std::string::npos) {
      outcome.add(rank, used ? Severity::kBlocks : Severity::kNote,
                  "the NCCL that is loaded is not the one dtrain was built with",
                  str("NCCL ", rank.nccl),
                  "unset LD_PRELOAD, and remove other copies of libnccl.so.2 from LD_LIBRARY_PATH");
    } else if (rank.nccl.empty() || rank.nccl == "none" || rank.nccl == "unknown") {
      outcome.unchecked.emplace_back("this dtrain was built without NCCL");
    }
  }
  return outcome;
}

Outcome check_peer_copies(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  bool tried = false;
  for (const RankFacts& rank : launch.ranks) {
    if (!rank.gpu) continue;
    const bool off = rank.variable("NCCL_P2P_DISABLE") == "1";
    bool correct = false;
    for (const PeerFacts& peer : rank.gpu->peers) {
      tried = tried || peer.result != "unsupported";
      correct = correct || peer.result == "correct";
      if (peer.result == "correct" || peer.result == "unsupported") continue;
      const std::string what = peer.result == "wrong" ? "arrive damaged: gradients would too"
                               : peer.result == "hangs"
                                   ? "do not end: the first all-reduce would not either"
                                   : "fail";
      outcome.add(rank, off ? Severity::kNote : Severity::kBlocks,
                  "direct copies between GPUs " + what,
                  str(rank.gpu->bus_id, " to ", peer.bus_id, ": ",
                      peer.error.empty() ? peer.result : peer.error),
                  off ? "export NCCL_P2P_DISABLE=1, as it is: nothing more is needed"
                      : "export NCCL_P2P_DISABLE=1");
      correct = false;
      break;  // one pair is enough
    }
    if (off && correct) {
      outcome.add(rank, Severity::kSlows,
                  "direct copies between GPUs work, and are switched off: gradients travel through "
                  "the host",
                  "NCCL_P2P_DISABLE=1", "unset NCCL_P2P_DISABLE");
    }
  }
  if (!tried) outcome.unchecked.emplace_back("no two GPUs that reach each other directly");
  return outcome;
}

void check_power(Outcome& outcome, const Launch&, const RankFacts& rank, const GpuFacts& gpu) {
  const bool known = gpu.power_limit && gpu.default_power_limit;
  if (!outcome.can_judge(known, kNotReported)) return;
  if (*gpu.power_limit < kPowerCap * *gpu.default_power_limit) {
    outcome.add(rank, Severity::kSlows, "the GPU's power is capped below its own limit",
                str(gpu.bus_id, ": ", fixed(*gpu.power_limit, 0), " of ",
                    fixed(*gpu.default_power_limit, 0), " W"),
                nvidia_smi(gpu, str("-pl ", fixed(*gpu.default_power_limit, 0))));
  }
}

void check_throttling(Outcome& outcome, const Launch&, const RankFacts& rank, const GpuFacts& gpu) {
  if (!outcome.can_judge(gpu.temperature.has_value(), kNotReported)) return;
  if (gpu.throttled_by.empty() && *gpu.temperature < kHot) return;
  outcome.add(rank, Severity::kSlows,
              "the GPU lowers its clocks, or soon will, though no run has begun",
              str(gpu.bus_id, ": ", fixed(*gpu.temperature, 0), " degrees Celsius",
                  gpu.throttled_by.empty() ? "" : ", " + join(gpu.throttled_by, ", ")),
              "nvidia-smi -q -d PERFORMANCE,TEMPERATURE; check fans, air flow and power cables");
}

void check_persistence(Outcome& outcome, const Launch&, const RankFacts& rank,
                       const GpuFacts& gpu) {
  if (!outcome.can_judge(gpu.persistence.has_value(), kNotReported)) return;
  if (!*gpu.persistence) {
    outcome.add(rank, Severity::kNote,
                "persistence mode is off: the driver is loaded for each start, which takes seconds "
                "and resets power caps",
                str("GPU ", gpu.bus_id), nvidia_smi(gpu, "-pm 1"));
  }
}

void check_pcie(Outcome& outcome, const Launch& launch, const RankFacts& rank,
                const GpuFacts& gpu) {
  const os::PcieLink& link = gpu.link;
  if (!outcome.can_see(link.width && link.card_width, launch, rank.node)) return;
  const std::string rate =
      gpu.host_copy_rate > 0
          ? str("; copies from the host: ", fixed(gpu.host_copy_rate / 1e9, 1), " GB/s")
          : "";
  if (*link.width < *link.card_width) {
    const bool slot = link.slot_width && *link.slot_width < *link.card_width;
    outcome.add(
        rank, *link.width < kNarrow ? Severity::kSlows : Severity::kNote,
        slot ? "the GPU is in a slot with fewer lanes than it has: copies to it take longer"
             : "the GPU's link has fewer lanes than card and slot: it is not well seated, or "
               "shares its lanes",
        str(gpu.bus_id, ": x", *link.width, " of x", *link.card_width, rate),
        str(lspci(gpu), slot ? " shows card and slot; move the card to a slot with more lanes"
                             : " shows what card and slot can do; seat the card again"));
  }
  if (link.generation && link.card_generation && *link.generation < *link.card_generation) {
    outcome.add(rank, Severity::kNote,
                "the GPU's link is slower than the card allows, also while it copies",
                str(gpu.bus_id, ": PCIe ", *link.generation, " of ", *link.card_generation, rate),
                lspci(gpu) + " shows it; set the slot's PCIe generation to auto in the BIOS");
  }
}

Outcome check_iommu(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  for (const HostRanks& host : hosts_of(launch)) {
    const os::Facts& facts = host.machine();
    if (!outcome.can_see(facts.iommu_groups.has_value(), launch, host.name)) continue;
    const bool translates = *facts.iommu_groups > 0 && !facts.iommu_passthrough.value_or(false);
    if (!translates || host.ranks.front()->visible_gpus < 2) continue;
    outcome.add(host, Severity::kNote,
                "the IOMMU translates addresses of PCIe devices: direct copies between GPUs may be "
                "slow, or damaged",
                str(*facts.iommu_groups, " IOMMU groups"),
                "cat /proc/cmdline shows how the kernel was started; add iommu=pt to that, or "
                "switch the IOMMU off in the BIOS");
  }
  return outcome;
}

void check_gpu_memory(Outcome& outcome, const Launch& launch, const RankFacts& rank,
                      const GpuFacts& gpu) {
  if (!outcome.can_judge(gpu.used_memory && gpu.memory > 0, kNotReported)) return;
  const auto& network = launch.first().network;
  const int64_t own =
      network ? 2 * network->model_bytes + network->optimizer_bytes + network->batch_bytes : 0;
  const int64_t sharing = std::ranges::count_if(launch.ranks, [&](const RankFacts& other) {
    return other.gpu && other.gpu->uuid == gpu.uuid;
  });
  const int64_t needed = sharing * own;
  if (needed > gpu.memory - *gpu.used_memory) {
    outcome.add(rank, Severity::kBlocks, "the network does not fit into the free memory of the GPU",
                str(gpu.bus_id, ": ", bytes(gpu.memory - *gpu.used_memory),
                    " free; weights, gradients and moments alone need ", bytes(needed),
                    sharing > 1 ? str(" for ", sharing, " ranks") : ""),
                "nvidia-smi shows who uses it; or a smaller network, --optimizer.name sgd");
  } else if (static_cast<double>(*gpu.used_memory) >
             kUsedMemory * static_cast<double>(gpu.memory)) {
    outcome.add(
        rank, Severity::kSlows, "other processes use the GPU: its memory and its time are shared",
        str(gpu.bus_id, ": ", bytes(*gpu.used_memory), " of ", bytes(gpu.memory), " in use"),
        "nvidia-smi shows them; choose another with CUDA_VISIBLE_DEVICES");
  }
}

void check_near_cores(Outcome& outcome, const Launch& launch, const RankFacts& rank,
                      const GpuFacts& gpu) {
  if (rank.machine.numa_nodes.value_or(1) < 2) return;
  const auto& near = gpu.link.near_cores;
  const auto& own = rank.machine.allowed_cores;
  if (!outcome.can_see(near && !near->empty() && own, launch, rank.node)) return;
  const bool any = std::any_of(own->begin(), own->end(), [&](int core) {
    return std::find(near->begin(), near->end(), core) != near->end();
  });
  if (any) return;
  outcome.add(
      rank, Severity::kNote,
      "the rank's cores are on another socket than its GPU: copies cross the link between sockets",
      str("GPU ", gpu.bus_id, " is near core ", near->front(), ", the rank has core ",
          own->front()),
      "mpirun --map-by numa --bind-to numa, or order CUDA_VISIBLE_DEVICES by socket");
}

Outcome check_debug_variables(const Launch& launch) {
  Outcome outcome;
  if (!outcome.can_judge(launch.has_gpus(), "no GPU")) return outcome;
  for (const RankFacts& rank : launch.ranks) {
    for (const char* name : {"CUDA_LAUNCH_BLOCKING", "NCCL_SHM_DISABLE"}) {
      if (rank.variable(name) != "1") continue;
      outcome.add(rank, Severity::kSlows,
                  "a variable for finding bugs is set: the host waits for every kernel, or GPUs "
                  "exchange gradients over sockets",
                  str(name, "=1"), str("unset ", name));
    }
  }
  return outcome;
}

}  // namespace

Checks device_checks() {
  return {{"ranks to GPUs", check_ranks_to_gpus},
          {"one rank per GPU", check_one_rank_per_gpu},
          {"driver", check_driver},
          {"NCCL", check_nccl},
          {"peer copies", check_peer_copies},
          {"debug variables", check_debug_variables},
          {"power cap", of_each_gpu<check_power>},
          {"throttling", of_each_gpu<check_throttling>},
          {"persistence mode", of_each_gpu<check_persistence>},
          {"PCIe link", of_each_gpu<check_pcie>},
          {"IOMMU", check_iommu},
          {"GPU memory", of_each_gpu<check_gpu_memory>},
          {"cores near the GPU", of_each_gpu<check_near_cores>}};
}

}  // namespace dtrain::doctor
