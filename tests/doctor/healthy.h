#pragma once

// Launches without a fault, which the tests of the checks spoil in one place each.

#include <limits>
#include <string>

#include "config/differences.h"
#include "doctor/checks.h"
#include "text/strings.h"

namespace dtrain::doctor::testing {

constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;

inline os::Facts healthy_machine() {
  constexpr double kNoQuota = std::numeric_limits<double>::infinity();
  const os::ProcessLimit none;
  return {.online_cores = std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7},
          .allowed_cores = std::vector<int>{0, 1, 2, 3},
          .cpuset = std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7},
          .cpu_quota = kNoQuota,
          .cpu_model = "AMD EPYC 7543",
          .governor = "performance",
          .scaling_driver = "acpi-cpufreq",
          .numa_nodes = 1,
          .memory = 64 * kGiB,
          .available_memory = 60 * kGiB,
          .memory_limit = os::kNoLimit,
          .memory_used = std::nullopt,
          .swap = 0,
          .free_swap = 0,
          .shared_memory = 32 * kGiB,
          .free_shared_memory = 32 * kGiB,
          .open_files = os::ProcessLimit{4096, 1 << 20},
          .processes = os::ProcessLimit{100000, 100000},
          .locked_memory = none,
          .file_size = none,
          .address_space = none,
          .process_limit = os::kNoLimit,
          .processes_used = std::nullopt,
          .threads_of_user = std::nullopt,
          .iommu_groups = 0,
          .iommu_passthrough = false,
          .infiniband_devices = 0,
          .network_interfaces = std::vector<std::string>{"eth0", "lo"}};
}

inline RankFacts healthy_rank(int rank, int ranks_of_host, const config::Config& config) {
  RankFacts facts;
  facts.rank = rank;
  facts.local_rank = rank % ranks_of_host;
  facts.local_size = ranks_of_host;
  facts.host = rank - facts.local_rank;
  facts.node = str("node", rank / ranks_of_host);
  facts.program = "/opt/dtrain/bin/dtrain";
  facts.program_hash = "00000000000000aa";
  facts.versions = "dtrain 0.1.0 | LibTorch 2.11.0";
  facts.nccl = "2.28.9";
  facts.keys = config::keys_in_common(config);
  facts.port = str("127.0.0.1:", 9500 + facts.local_rank);
  facts.device = "cpu";
  facts.machine = healthy_machine();
  if (facts.local_rank == 1) facts.machine.allowed_cores = std::vector<int>{4, 5, 6, 7};
  facts.threads = 4;
  facts.readers = 2;
  facts.other_cpu = 0.1;
  facts.stolen_cpu = 0;
  facts.data_file = "data/d.h5";
  facts.data_checksum = "00000000000000bb";
  facts.data_lock = "works";
  facts.data_system = {.type = "ext4",
                       .mount_point = "/",
                       .folder = "/data/d.h5",
                       .writable = true,
                       .bytes = 500 * kGiB,
                       .free_bytes = 100 * kGiB,
                       .free_files = 1000000};
  if (rank != 0) return facts;
  facts.run_system = facts.data_system;
  facts.run_system->folder = "/runs";
  facts.run_lock = "works";
  facts.network = NetworkFacts{.parameters = 25000000,
                               .model_bytes = 100 * kMiB,
                               .optimizer_bytes = 200 * kMiB,
                               .batch_bytes = 20 * kMiB};
  return facts;
}

// Two ranks of one host without GPUs.
inline Launch on_cpus() {
  Launch launch;
  for (int rank = 0; rank < 2; ++rank) launch.ranks.push_back(healthy_rank(rank, 2, launch.config));
  return launch;
}

// Two hosts with two GPUs and a rank for each.
inline Launch on_gpus() {
  Launch launch;
  for (int rank = 0; rank < 4; ++rank) {
    RankFacts facts = healthy_rank(rank, 2, launch.config);
    facts.device = str("cuda:", facts.local_rank);
    facts.driver = "580.65.06";
    facts.visible_gpus = 2;
    facts.gpu = GpuFacts{.name = "NVIDIA GeForce RTX 3090",
                         .uuid = str("uuid", rank),
                         .bus_id = str("0000:6", facts.local_rank, ":00.0"),
                         .memory = 24 * kGiB,
                         .used_memory = kGiB / 2,
                         .persistence = true,
                         .power_limit = 350,
                         .default_power_limit = 350,
                         .temperature = 40,
                         .throttled_by = {},
                         .host_copy_rate = 24e9,
                         .link = {.width = 16,
                                  .card_width = 16,
                                  .slot_width = 16,
                                  .generation = 4,
                                  .card_generation = 4,
                                  .numa_node = 0,
                                  .near_cores = std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}},
                         .peers = {{str("0000:6", 1 - facts.local_rank, ":00.0"), "correct", ""}}};
    launch.ranks.push_back(facts);
  }
  return launch;
}

}  // namespace dtrain::doctor::testing
