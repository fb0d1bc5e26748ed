#include "doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "doctor/healthy.h"

namespace dtrain::doctor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGiB;
using testing::kMiB;
using ::testing::Not;
using testing::on_cpus;
using testing::on_gpus;

std::string all_of(const Diagnosis& diagnosis) {
  std::string text;
  for (const DoctorFinding& f : diagnosis.findings) {
    text += str(f.severity, " | ", f.check, " | ", f.cause, " | ", f.evidence, " | ", f.fix, "\n");
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<Diagnosis::Unchecked>& unchecked) {
  std::vector<std::string> names;
  for (const auto& [check, why] : unchecked) names.push_back(check);
  return names;
}

TEST(Doctor, AHealthyMachineHasNoFindings) {
  const Diagnosis gpus = examine(on_gpus());
  EXPECT_EQ(all_of(gpus), "");
  EXPECT_FALSE(gpus.blocks());
  EXPECT_THAT(gpus.unchecked, IsEmpty());
  const Diagnosis cpus = examine(on_cpus());
  EXPECT_EQ(all_of(cpus), "");
  EXPECT_THAT(names_of(cpus.unchecked), Contains("power cap"));
  EXPECT_THAT(cpus.right, Contains("core binding"));
  EXPECT_THAT(cpus.right, Not(Contains("power cap")));
  std::set<std::string> names(gpus.right.begin(), gpus.right.end());
  EXPECT_EQ(names.size(), gpus.right.size()) << "each check has a name of its own";
}

// A fault that is planted into one of the healthy launches, and the finding that it has to give.
struct Fault {
  const char* check;
  Severity severity;
  const char* evidence;  // a part of it
  const char* fix;       // a part of it
  std::function<void(Launch&)> plant;
  std::vector<int> ranks = {};  // that it blames; none: hosts alone
  bool gpus = true;
  size_t findings = 1;
};

// A user can type what a fix begins with: a command, a flag or a variable.
bool begins_with_a_command(const std::string& fix) {
  static const std::set<std::string> commands = {
      "cat",   "chronyc", "cpupower",   "df",  "docker", "dtrain", "export", "findmnt", "lsof",
      "lspci", "mpirun",  "nvidia-smi", "scp", "top",    "ulimit", "unset",  "vmstat"};
  std::string rest = fix;
  if (rest.starts_with("sudo ")) rest = rest.substr(5);
  return rest.starts_with("--") || commands.contains(rest.substr(0, rest.find(' ')));
}

class PlantedFault : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFoundAndNothingElse) {
  const Fault& fault = GetParam();
  Launch launch = fault.gpus ? on_gpus() : on_cpus();
  fault.plant(launch);
  const Diagnosis diagnosis = examine(launch);
  ASSERT_EQ(diagnosis.findings.size(), fault.findings) << all_of(diagnosis);
  const DoctorFinding& finding = diagnosis.findings.front();
  EXPECT_EQ(finding.check, fault.check);
  EXPECT_EQ(finding.severity, fault.severity);
  EXPECT_THAT(finding.evidence, HasSubstr(fault.evidence));
  EXPECT_THAT(finding.fix, HasSubstr(fault.fix));
  for (const DoctorFinding& one : diagnosis.findings)
    EXPECT_TRUE(begins_with_a_command(one.fix)) << one.fix;
  EXPECT_EQ(finding.ranks, fault.ranks);
  EXPECT_FALSE(finding.hosts.empty());
  EXPECT_GT(finding.cause.size(), 20u);
  EXPECT_THAT(diagnosis.right, Not(Contains(fault.check)));
  EXPECT_EQ(diagnosis.blocks(), fault.severity == Severity::kBlocks);
}

constexpr Severity kBlocks = Severity::kBlocks, kSlows = Severity::kSlows, kNote = Severity::kNote;

std::string changed(std::string keys, const std::string& from, const std::string& to) {
  return keys.replace(keys.find(from), from.size(), to);
}

const std::vector<Fault> kStart = {
    {"same program",
     kBlocks,
     "hash 00000000000000cc, that of rank 0 has 00000000000000aa",
     "scp node0:/opt/dtrain/bin/dtrain HOST:/opt/dtrain/bin/dtrain",
     [](Launch& l) { l.ranks[3].program_hash = "00000000000000cc"; },
     {3}},
    {"same configuration",
     kBlocks,
     "train.batch_size is 16, not 32",
     "mpirun -np 4 dtrain ...; the same flags",
     [](Launch& l) {
       l.ranks[1].keys = changed(l.ranks[1].keys, "train.batch_size=32", "train.batch_size=16");
     },
     {1}},
    {"same data",
     kBlocks,
     "checksum 00000000000000cc",
     "scp node0:$PWD/data/d.h5 HOST:$PWD/data/d.h5",
     [](Launch& l) { l.ranks[2].data_checksum = "00000000000000cc"; },
     {2}},
    {"same program",
     kBlocks,
     "hash 00000000000000cc",
     "mpirun -np 4 /opt/dtrain/bin/dtrain ...; one program for all ranks",
     [](Launch& l) { l.ranks[1].program_hash = "00000000000000cc"; },  // on the host of rank 0
     {1}},
    {"same data",
     kBlocks,
     "checksum 00000000000000cc",
     "--data.file data/d.h5, the same for all ranks",
     [](Launch& l) { l.ranks[1].data_checksum = "00000000000000cc"; },
     {1}},
    {"same data",
     kBlocks,
     "data/d.h5 does not exist",
     "--data.file",
     [](Launch& l) {
       l.ranks[2].data_checksum = "";
       l.ranks[2].data_problem = "data/d.h5 does not exist";
     },
     {2}},
    {"task and data",
     kBlocks,
     "is for task classify",
     "dtrain inspect data/d.h5",
     [](Launch& l) { l.ranks[0].network_refused = "data/d.h5 is for task classify"; },
     {0}},
    {"same libraries",
     kSlows,
     "LibTorch 2.10",
     "mpirun -x LD_LIBRARY_PATH",
     [](Launch& l) { l.ranks[2].versions = "dtrain 0.1.0 | LibTorch 2.10.0"; },
     {2}},
    {"clock skew",
     kNote,
     "3.50 s behind",
     "chronyc",
     [](Launch& l) {
       l.ranks[2].clock_offset = -3.5;
       l.ranks[2].clock_spread = 0.01;
     },
     {2}},
    {"metrics port",
     kNote,
     "127.0.0.1:9501: Address already in use",
     "--metrics.port",
     [](Launch& l) { l.ranks[1].port_problem = "Address already in use"; },
     {1}},
    {"metrics port",
     kNote,
     "Cannot assign",
     "--metrics.bind",
     [](Launch& l) { l.ranks[1].port_problem = "Cannot assign requested address"; },
     {1}},
    {"network interfaces", kNote, "docker0", "NCCL_SOCKET_IFNAME=^lo,docker0",
     [](Launch& l) { l.ranks[0].machine.network_interfaces->push_back("docker0"); }},
    {"gradients between ranks",
     kNote,
     "dist.wire is bf16, and all ranks are on one host",
     "--dist.wire fp32",
     [](Launch& l) { l.config.dist.wire = config::Wire::kBf16; },
     {},
     false},
};

const std::vector<Fault> kDevices = {
    {"one rank per GPU",
     kSlows,
     "0000:60:00.0 of node0",
     "mpirun -np 2",
     [](Launch& l) {
       l.ranks[1].gpu = l.ranks[0].gpu;
       l.ranks[0].visible_gpus = l.ranks[1].visible_gpus = 2;
     },
     {0, 1},
     true,
     2},
    {"one rank per GPU",
     kBlocks,
     "0000:60:00.0 of node0",
     "mpirun -np 1",
     [](Launch& l) {
       l.config.dist.backend = config::Backend::kNccl;
       l.ranks[1].gpu = l.ranks[0].gpu;
       l.ranks[0].visible_gpus = l.ranks[1].visible_gpus = 1;
     },
     {0, 1}},
    {"ranks to GPUs", kNote, "2 of 4 have a rank", "mpirun -np 4",
     [](Launch& l) { l.ranks[2].visible_gpus = l.ranks[3].visible_gpus = 4; }},
    {"ranks to GPUs",
     kSlows,
     "NVIDIA GeForce RTX 3060",
     "CUDA_VISIBLE_DEVICES",
     [](Launch& l) { l.ranks[1].gpu->name = "NVIDIA GeForce RTX 3060"; },
     {0, 1, 2, 3}},
    {"ranks to GPUs",
     kBlocks,
     "it would use the CPU",
     "--device.type cpu",
     [](Launch& l) {
       l.ranks[3].gpu.reset();
       l.ranks[3].device = "cpu";
       l.ranks[3].visible_gpus = l.ranks[2].visible_gpus = 1;
     },
     {3}},
    {"ranks to GPUs",
     kBlocks,
     "compute capability 6.1",
     "nvidia-smi",
     [](Launch& l) {
       l.ranks[1].device = "";
       l.ranks[1].device_problem = "the GeForce GTX 1080 has compute capability 6.1";
     },
     {1},
     false},
    {"driver",
     kSlows,
     "supports CUDA 12.4",
     "driver 580",
     [](Launch& l) {
       for (RankFacts& rank : l.ranks)
         rank.device_problem = "its driver is too old: it supports CUDA 12.4";
     },
     {0, 1},
     false},
    {"driver", kNote, "570.1, 580.65.06", "same driver",
     [](Launch& l) { l.ranks[2].driver = l.ranks[3].driver = "570.1"; }},
    {"NCCL",
     kBlocks,
     "2.27.3 (built with 2.28.9)",
     "LD_PRELOAD",
     [](Launch& l) { l.ranks[1].nccl = "2.27.3 (built with 2.28.9)"; },
     {1}},
    {"peer copies",
     kBlocks,
     "5 of 100 words differ",
     "export NCCL_P2P_DISABLE=1",
     [](Launch& l) {
       l.ranks[1].gpu->peers[0] = {"0000:60:00.0", "wrong", "5 of 100 words differ"};
     },
     {1}},
    {"peer copies",
     kBlocks,
     "hangs",
     "export NCCL_P2P_DISABLE=1",
     [](Launch& l) { l.ranks[1].gpu->peers[0].result = "hangs"; },
     {1}},
    {"peer copies",
     kSlows,
     "NCCL_P2P_DISABLE=1",
     "unset",
     [](Launch& l) { l.ranks[1].variables["NCCL_P2P_DISABLE"] = "1"; },
     {1}},
    {"debug variables",
     kSlows,
     "CUDA_LAUNCH_BLOCKING=1",
     "unset CUDA_LAUNCH_BLOCKING",
     [](Launch& l) { l.ranks[0].variables["CUDA_LAUNCH_BLOCKING"] = "1"; },
     {0}},
    {"power cap",
     kSlows,
     "200 of 350 W",
     "nvidia-smi -i 0000:60:00.0 -pl 350",
     [](Launch& l) { l.ranks[0].gpu->power_limit = 200; },
     {0}},
    {"throttling",
     kSlows,
     "hw_thermal",
     "TEMPERATURE",
     [](Launch& l) { l.ranks[0].gpu->throttled_by = {"hw_thermal"}; },
     {0}},
    {"throttling",
     kSlows,
     "91 degrees",
     "fans",
     [](Launch& l) { l.ranks[0].gpu->temperature = 91; },
     {0}},
    {"persistence mode",
     kNote,
     "0000:61:00.0",
     "nvidia-smi -i 0000:61:00.0 -pm 1",
     [](Launch& l) { l.ranks[1].gpu->persistence = false; },
     {1}},
    {"PCIe link",
     kSlows,
     "x4 of x16",
     "sudo lspci -vv -s 0000:60:00.0 | grep Lnk shows card and slot; move the card to a slot with "
     "more lanes",
     [](Launch& l) { l.ranks[0].gpu->link.width = l.ranks[0].gpu->link.slot_width = 4; },
     {0}},
    {"PCIe link",
     kNote,
     "x8 of x16",
     "seat the card",
     [](Launch& l) { l.ranks[0].gpu->link.width = 8; },
     {0}},
    {"PCIe link",
     kNote,
     "PCIe 1 of 4; copies from the host: 24.0 GB/s",
     "sudo lspci -vv -s 0000:60:00.0 | grep Lnk shows it; set the slot's PCIe generation to auto "
     "in the BIOS",
     [](Launch& l) { l.ranks[0].gpu->link.generation = 1; },
     {0}},
    {"IOMMU", kNote, "40 IOMMU groups", "cat /proc/cmdline",
     [](Launch& l) { l.ranks[0].machine.iommu_groups = 40; }},
    {"GPU memory",
     kSlows,
     "12.0 GiB of 24.0 GiB in use",
     "nvidia-smi",
     [](Launch& l) { l.ranks[0].gpu->used_memory = 12 * kGiB; },
     {0}},
    {"GPU memory",
     kBlocks,
     "need 840.0 MiB for 2 ranks",
     "nvidia-smi",
     [](Launch& l) {
       l.ranks[0].gpu->used_memory = 24 * kGiB - 500 * kMiB;  // enough for one
       l.ranks[1].gpu = l.ranks[0].gpu;
     },
     {0, 1},
     true,
     3},  // two ranks have one GPU, and none has the other
    {"GPU memory",
     kBlocks,
     "need 420.0 MiB",
     "nvidia-smi",
     [](Launch& l) { l.ranks[0].gpu->used_memory = 24 * kGiB - 100 * kMiB; },
     {0}},
    {"cores near the GPU",
     kNote,
     "near core 4, the rank has core 0",
     "--map-by numa",
     [](Launch& l) {
       l.ranks[0].machine.numa_nodes = 2;
       l.ranks[0].gpu->link.near_cores = std::vector<int>{4, 5};
     },
     {0}},
};

const std::vector<Fault> kHost = {
    {"core binding",
     kSlows,
     "8 computing threads on 2 cores (the ranks are bound to these of 8)",
     "--bind-to none",
     [](Launch& l) {
       l.ranks[0].machine.allowed_cores = std::vector<int>{0};
       l.ranks[1].machine.allowed_cores = std::vector<int>{1};
     },
     {},
     false,
     2},
    {"core binding",
     kSlows,
     "16 computing threads on 8 cores (all of the host)",
     "--device.threads 4",
     [](Launch& l) { l.ranks[0].threads = l.ranks[1].threads = 8; },
     {},
     false},
    {"core binding",
     kNote,
     "2 computing threads on 8 cores (all of the host), OMP_NUM_THREADS=1",
     "unset OMP_NUM_THREADS, or --device.threads 4",
     [](Launch& l) {
       for (RankFacts& rank : l.ranks) {
         rank.threads = 1;
         rank.variables["OMP_NUM_THREADS"] = "1";
       }
     },
     {},
     false},
    {"core binding",
     kSlows,
     "2 ranks on 1 core (the control group has these of 8)",
     "--cpuset-cpus",
     [](Launch& l) {
       for (RankFacts& rank : l.ranks) {
         rank.machine.allowed_cores = rank.machine.cpuset = std::vector<int>{3};
         rank.threads = rank.readers = 1;
       }
     },
     {},
     false},
    {"core binding",
     kSlows,
     "20 readers on 8 cores",
     "--data.workers 4",
     [](Launch& l) { l.ranks[0].readers = l.ranks[1].readers = 10; },
     {},
     false},
    {"core binding", kSlows, "2 and 12 threads of ranks and readers on 8 cores", "--data.workers 3",
     [](Launch& l) { l.ranks[0].readers = l.ranks[1].readers = 6; }},
    {"CPU time limit",
     kSlows,
     "a limit of 1.5 cores for 8 threads of 2 ranks",
     "--cpus",
     [](Launch& l) { l.ranks[0].machine.cpu_quota = 1.5; },
     {},
     false},
    {"governor",
     kSlows,
     "powersave of acpi-cpufreq",
     "cpupower frequency-set -g performance",
     [](Launch& l) { l.ranks[0].machine.governor = "powersave"; },
     {},
     false},
    {"governor",
     kNote,
     "powersave of intel_pstate",
     "cpupower",
     [](Launch& l) {
       l.ranks[0].machine.governor = "powersave";
       l.ranks[0].machine.scaling_driver = "intel_pstate";
     },
     {},
     false},
    {"other load",
     kSlows,
     "4.0 of 8 cores busy",
     "top",
     [](Launch& l) { l.ranks[0].other_cpu = 4; },
     {},
     false},
    {"other load",
     kSlows,
     "1.5 of 8 cores stolen",
     "vmstat 1 5",
     [](Launch& l) { l.ranks[0].stolen_cpu = 1.5; },
     {},
     false},
    {"memory per rank",
     kBlocks,
     "2 ranks need 1000.0 MiB",
     "--batch-size",
     [](Launch& l) { l.ranks[0].machine.available_memory = 900 * kMiB; },
     {},
     false},
    {"memory per rank",
     kSlows,
     "1.1 GiB can be used within the control group's 2.1 GiB",
     "docker run --memory",
     [](Launch& l) {
       l.ranks[0].machine.memory_limit = 2150 * kMiB;
       l.ranks[0].machine.memory_used = 1000 * kMiB;
     },
     {},
     false},
    {"/dev/shm",
     kSlows,
     "1.0 MiB free for 2 ranks, which need 8.0 MiB",
     "--shm-size",
     [](Launch& l) { l.ranks[0].machine.free_shared_memory = kMiB; },
     {},
     false},
    {"/dev/shm", kBlocks, "64.0 MiB free for 2 ranks", "--shm-size",
     [](Launch& l) { l.ranks[2].machine.free_shared_memory = 64 * kMiB; }},
    {"open files",
     kBlocks,
     "ulimit -n is 100",
     "ulimit -n 4096",
     [](Launch& l) {
       l.ranks[1].machine.open_files = os::ProcessLimit{100, 100};
     },
     {1}},
    {"threads allowed",
     kBlocks,
     "ulimit -u is 20",
     "ulimit -u 4096",
     [](Launch& l) {
       l.ranks[0].machine.processes = os::ProcessLimit{20, 20};
     },
     {},
     false},
    {"threads allowed",
     kBlocks,
     "ulimit -u is 4096, 4090 are running",
     "ulimit -u 41",
     [](Launch& l) {
       l.ranks[0].machine.processes = os::ProcessLimit{4096, 4096};
       l.ranks[0].machine.threads_of_user = 4090;
     },
     {},
     false},
    {"threads allowed",
     kBlocks,
     "10 of 100 are left",
     "--pids-limit",
     [](Launch& l) {
       l.ranks[0].machine.process_limit = 100;
       l.ranks[0].machine.processes_used = 90;
     },
     {},
     false},
    {"file size",
     kBlocks,
     "ulimit -f is 50.0 MiB, the largest file has 201.0 MiB",
     "ulimit -f unlimited",
     [](Launch& l) {
       l.ranks[0].machine.file_size = os::ProcessLimit{50 * kMiB, 50 * kMiB};
     },
     {0}},
    {"locked memory",
     kSlows,
     "ulimit -l is 8.0 MiB",
     "memlock=-1",
     [](Launch& l) {
       l.ranks[0].machine.infiniband_devices = 1;
       l.ranks[0].machine.locked_memory = os::ProcessLimit{8 * kMiB, 8 * kMiB};
     },
     {0}},
    {"address space",
     kBlocks,
     "ulimit -v is 16.0 GiB",
     "ulimit -v unlimited",
     [](Launch& l) {
       l.ranks[0].machine.address_space = os::ProcessLimit{16 * kGiB, 16 * kGiB};
     },
     {0}},
    {"run folder",
     kBlocks,
     "is on a read-only file system",
     "--run.folder",
     [](Launch& l) { l.ranks[0].run_system->read_only = true; },
     {0}},
    {"run folder",
     kNote,
     "runs is on lustre without locks",
     "findmnt / shows how it is mounted; mount it with -o flock",
     [](Launch& l) {
       l.ranks[0].run_lock = "fails";
       l.ranks[0].run_system->type = "lustre";
     },
     {0}},
    {"disk space",
     kBlocks,
     "5 checkpoints of 300.0 MiB need 1.5 GiB",
     "--checkpoint.keep_last 1, --run.folder on another disk, or free 476.0 MiB",
     [](Launch& l) { l.ranks[0].run_system->free_bytes = kGiB; },
     {0}},
    {"disk space",
     kBlocks,
     "5 checkpoints of 300.0 MiB need 1.5 GiB",
     "--run.folder on another disk, or free 1.4 GiB",
     [](Launch& l) { l.ranks[0].run_system->free_bytes = kGiB / 16; },
     {0}},
    {"disk space",
     kBlocks,
     "3 can be created",
     "df -i / shows it; remove files",
     [](Launch& l) { l.ranks[0].run_system->free_files = 3; },
     {0}},
    {"HDF5 locks",
     kBlocks,
     "data/d.h5 is on nfs4, which comes over the network",
     "export HDF5_USE_FILE_LOCKING=FALSE",
     [](Launch& l) {
       l.ranks[1].data_lock = "fails";
       l.ranks[1].data_system.type = "nfs4";
       l.ranks[1].data_system.network = true;
       l.ranks[1].variables["HDF5_USE_FILE_LOCKING"] = "TRUE";
     },
     {1}},
    {"HDF5 locks",
     kNote,
     "is on lustre",
     "export HDF5_USE_FILE_LOCKING=FALSE",
     [](Launch& l) {
       for (RankFacts& rank : l.ranks) {
         rank.data_lock = "fails";
         rank.data_system.type = "lustre";
       }
     },
     {0, 1, 2, 3}},
    {"HDF5 locks",
     kNote,
     "data/d.h5",
     "lsof data/d.h5",
     [](Launch& l) { l.ranks[0].data_lock = "held"; },
     {0}},
};

std::string named(const ::testing::TestParamInfo<Fault>& info) {
  std::string name = info.param.check;
  std::erase_if(name, [](char c) {
    return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9');
  });
  return str(name, "_", info.index);
}
INSTANTIATE_TEST_SUITE_P(Start, PlantedFault, ::testing::ValuesIn(kStart), named);
INSTANTIATE_TEST_SUITE_P(Devices, PlantedFault, ::testing::ValuesIn(kDevices), named);
INSTANTIATE_TEST_SUITE_P(Host, PlantedFault, ::testing::ValuesIn(kHost), named);

TEST(Doctor, EveryCheckHasAPlantedFault) {
  std::set<std::string> planted;
  for (const auto* faults : {&kStart, &kDevices, &kHost}) {
    for (const Fault& fault : *faults) planted.insert(fault.check);
  }
  EXPECT_GE(planted.size(), 20u);
  const Diagnosis healthy = examine(on_gpus());
  EXPECT_EQ(planted, std::set<std::string>(healthy.right.begin(), healthy.right.end()));
}

TEST(Doctor, WhatIsUnknownIsNotCalledRight) {
  Launch launch = on_cpus();
  for (RankFacts& rank : launch.ranks) rank.machine = {};
  launch.ranks[0].network.reset();
  launch.ranks[0].network_problem = "the data cannot be used";
  const Diagnosis diagnosis = examine(launch);
  EXPECT_EQ(all_of(diagnosis), "");
  for (const char* check : {"core binding", "CPU time limit", "governor", "other load",
                            "memory per rank", "/dev/shm", "open files", "threads allowed",
                            "file size", "address space", "disk space", "peer copies", "IOMMU"}) {
    EXPECT_THAT(names_of(diagnosis.unchecked), Contains(check));
    EXPECT_THAT(diagnosis.right, Not(Contains(check)));
  }
}

TEST(Doctor, AFaultOfAllRanksIsOneFinding) {
  Launch launch = on_gpus();
  for (RankFacts& rank : launch.ranks) rank.machine.open_files = os::ProcessLimit{100, 100};
  const Diagnosis diagnosis = examine(launch);
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].ranks, std::vector<int>({0, 1, 2, 3}));
  EXPECT_EQ(diagnosis.findings[0].hosts, std::vector<std::string>({"node0", "node1"}));
}

TEST(Doctor, TheClockOfRank0MayBeTheWrongOne) {
  Launch launch = on_gpus();
  for (size_t i = 0; i < launch.ranks.size();
       ++i) {  // a host for each; what is measured has small errors
    launch.ranks[i].host = static_cast<int>(i);
    launch.ranks[i].clock_offset = i == 0 ? 0 : -300 + 0.01 * static_cast<double>(i);
  }
  const Diagnosis diagnosis = examine(launch);
  const auto found = std::ranges::find(diagnosis.findings, "clock skew", &DoctorFinding::check);
  ASSERT_NE(found, diagnosis.findings.end());
  EXPECT_EQ(found->ranks, std::vector<int>({0}));
  EXPECT_EQ(std::ranges::count(diagnosis.findings, "clock skew", &DoctorFinding::check), 1);
  EXPECT_NE(found->evidence.find("ahead of that of most hosts"), std::string::npos)
      << found->evidence;
}

TEST(Doctor, TheSeverestComesFirst) {
  Launch launch = on_gpus();
  launch.ranks[0].clock_offset = 9;
  launch.ranks[0].gpu->power_limit = 100;
  launch.ranks[3].program_hash = "01";
  const Diagnosis diagnosis = examine(launch);
  ASSERT_EQ(diagnosis.findings.size(), 3u);
  EXPECT_EQ(diagnosis.findings[0].check, "same program");
  EXPECT_EQ(diagnosis.findings[1].check, "power cap");
  EXPECT_EQ(diagnosis.findings[2].check, "clock skew");
}

// One rank, auto settings, a small machine: what a first user has.
TEST(Doctor, DefaultsOfASmallMachineAreRight) {
  for (const int cores : {1, 2, 4}) {
    Launch launch = on_cpus();
    launch.ranks.pop_back();
    RankFacts& rank = launch.ranks[0];
    rank.local_size = 1;
    std::vector<int> all;
    for (int core = 0; core < cores; ++core) all.push_back(core);
    rank.machine.online_cores = rank.machine.allowed_cores = rank.machine.cpuset = all;
    rank.threads = cores;
    rank.readers = std::max(1, cores / 2);
    EXPECT_EQ(all_of(examine(launch)), "") << cores << " cores";
  }
}

}  // namespace
}  // namespace dtrain::doctor
