#include "os/facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>

#include <cmath>

#include "core/parallel.h"
#include "os/file_descriptor.h"
#include "os/made_tree.h"

namespace dtrain::os {
namespace {

using List = std::vector<int>;
using testing::MadeTree;

constexpr const char* kVersion2 = "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
constexpr const char* kVersion1 =
    "31 1 0:6 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "32 1 0:7 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(Facts, AnEmptyTreeTellsNothingAndFailsNowhere) {
  MadeTree tree;
  const Facts facts = read_facts(tree.root());
  EXPECT_FALSE(facts.online_cores || facts.allowed_cores || facts.cpuset || facts.cpu_quota ||
               facts.cpu_model);
  EXPECT_FALSE(read_cpu_quota(tree.root()));
  EXPECT_FALSE(facts.governor || facts.scaling_driver || facts.numa_nodes);
  EXPECT_FALSE(facts.memory || facts.available_memory || facts.memory_limit || facts.memory_used ||
               facts.swap || facts.free_swap);
  EXPECT_FALSE(facts.shared_memory || facts.free_shared_memory);
  EXPECT_FALSE(facts.open_files || facts.processes || facts.locked_memory || facts.file_size ||
               facts.address_space);
  EXPECT_FALSE(facts.process_limit || facts.processes_used);
  EXPECT_FALSE(facts.iommu_groups || facts.iommu_passthrough || facts.infiniband_devices ||
               facts.network_interfaces);
  EXPECT_FALSE(usable_memory(facts) || read_usable_memory(tree.root()));
  const PcieLink link = read_pcie_link("0000:65:00.0", tree.root());
  EXPECT_FALSE(link.width || link.card_width || link.slot_width || link.generation ||
               link.card_generation || link.numa_node || link.near_cores);
}

TEST(Facts, Cores) {
  MadeTree tree;
  tree.file("/sys/devices/system/cpu/online", "0-7\n")
      .file("/proc/self/status",
            "Name:\tx\nCpus_allowed:\t0c\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0\n")
      .file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 7543\nflags : a b\n")
      .file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
      .file("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n")
      .file("/sys/devices/system/cpu/cpu2/cpufreq/scaling_driver", "acpi-cpufreq\n")
      .file("/sys/devices/system/node/online", "0-1\n");
  Facts facts = read_facts(tree.root());
  EXPECT_EQ(facts.online_cores->size(), 8u);
  EXPECT_EQ(facts.allowed_cores, List({2, 3}));
  EXPECT_EQ(facts.cpu_model, "AMD EPYC 7543");
  EXPECT_EQ(facts.governor, "performance") << "core 0 is not allowed";
  EXPECT_EQ(facts.scaling_driver, "acpi-cpufreq");
  EXPECT_EQ(facts.numa_nodes, 2);
  tree.file("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "schedutil\n");
  EXPECT_EQ(read_facts(tree.root()).governor, "schedutil");
  tree.file("/proc/self/status", "Cpus_allowed_list:\t2-\n");
  EXPECT_FALSE(read_facts(tree.root()).allowed_cores) << "damaged";
}

TEST(Facts, TheSmallestLimitOfNestedGroupsOfVersion2) {
  MadeTree tree;
  tree.file("/proc/self/cgroup", "0::/pod/container\n").file("/proc/self/mountinfo", kVersion2);
  Facts facts = read_facts(tree.root());
  EXPECT_TRUE(std::isinf(facts.cpu_quota.value()))
      << "the hierarchy is there, and no group has a limit";
  EXPECT_EQ(read_cpu_quota(tree.root()), facts.cpu_quota);
  EXPECT_EQ(facts.memory_limit, kNoLimit);
  EXPECT_EQ(facts.process_limit, kNoLimit);
  tree.file("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n")
      .file("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n")
      .file("/sys/fs/cgroup/pod/container/memory.max", "8000000000\n")
      .file("/sys/fs/cgroup/pod/container/memory.current", "5000000000\n")
      .file("/sys/fs/cgroup/pod/memory.max", "4000000000\n")
      .file("/sys/fs/cgroup/pod/memory.current", "3000000000\n")
      .file("/sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 500000000\n")
      .file("/sys/fs/cgroup/pod/container/cpuset.cpus.effective", "4-5\n")
      .file("/sys/fs/cgroup/pod/container/pids.max", "100\n")
      .file("/sys/fs/cgroup/pod/container/pids.current", "40\n")
      .file("/sys/fs/cgroup/pod/pids.max", "max\n")
      .file("/proc/meminfo",
            "MemTotal: 64000000 kB\nMemAvailable: 32000000 kB\nSwapTotal: 10 kB\nSwapFree: 5 kB\n");
  facts = read_facts(tree.root());
  EXPECT_DOUBLE_EQ(facts.cpu_quota.value(), 1.5);
  EXPECT_EQ(read_cpu_quota(tree.root()), facts.cpu_quota);
  EXPECT_EQ(facts.memory_limit, 4000000000);
  EXPECT_EQ(facts.memory_used, 2500000000) << "file pages can be dropped";
  EXPECT_EQ(usable_memory(facts), 1500000000);
  EXPECT_EQ(read_usable_memory(tree.root()), 1500000000);
  EXPECT_EQ(facts.cpuset, List({4, 5}));
  EXPECT_EQ(facts.process_limit, 100);
  EXPECT_EQ(facts.processes_used, 40);
  EXPECT_EQ(facts.memory, int64_t{64000000} * 1024);
  EXPECT_EQ(facts.swap, 10240);
  EXPECT_EQ(facts.free_swap, 5120);
}

TEST(Facts, LimitsOfVersion1) {
  MadeTree tree;
  tree.file("/proc/self/cgroup", "2:cpu:/a\n3:memory:/a\n")
      .file("/proc/self/mountinfo", kVersion1)
      .file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n")
      .file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
      .file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n")
      .file("/proc/meminfo", "MemAvailable: 1000 kB\n");
  Facts facts = read_facts(tree.root());
  EXPECT_TRUE(std::isinf(facts.cpu_quota.value()));
  EXPECT_EQ(facts.memory_limit, kNoLimit) << "never set";
  EXPECT_EQ(usable_memory(facts), 1024000);
  tree.file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n")
      .file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000000\n")
      .file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "900000\n")
      .file("/sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 100000\n");
  facts = read_facts(tree.root());
  EXPECT_DOUBLE_EQ(facts.cpu_quota.value(), 0.5);
  EXPECT_EQ(read_cpu_quota(tree.root()), facts.cpu_quota);
  EXPECT_EQ(facts.memory_used, 800000);
  EXPECT_EQ(usable_memory(facts), 200000);
  EXPECT_EQ(read_usable_memory(tree.root()), 200000);
  EXPECT_FALSE(facts.process_limit) << "no such controller";
}

TEST(Facts, LimitsOfTheProcess) {
  MadeTree tree;
  tree.file("/proc/self/limits",
            "Max file size             6144000              unlimited            bytes     \n"
            "Max processes             64                   96365                processes \n"
            "Max open files            256                  256                  files     \n"
            "Max locked memory         8388608              8388608              bytes     \n"
            "Max address space         unlimited            unlimited            bytes     \n")
      .file("/proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t3\n")
      .file("/proc/12/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t3\n")
      .file("/proc/345/status", "Uid:\t1000\t0\t0\t0\nThreads:\t20\n")
      .file("/proc/346/status", "Uid:\t0\t0\t0\t0\nThreads:\t700\n")
      .file("/proc/sys", "");
  Facts facts = read_facts(tree.root());
  EXPECT_EQ(facts.file_size->soft, 6144000);
  EXPECT_EQ(facts.processes->soft, 64);
  EXPECT_EQ(facts.threads_of_user, 23);
  EXPECT_EQ(facts.open_files->hard, 256);
  EXPECT_EQ(facts.locked_memory->soft, 8388608);
  EXPECT_EQ(facts.address_space->soft, kNoLimit);
  tree.file("/proc/self/status", "Uid:\t0\t1000\t1000\t1000\nThreads:\t3\n");
  facts = read_facts(tree.root());
  EXPECT_EQ(facts.processes->soft, kNoLimit) << "not enforced for root";
  EXPECT_FALSE(facts.threads_of_user) << "no check needs it";
  EXPECT_EQ(facts.open_files->soft, 256) << "this one is";
}

TEST(Facts, BusesAndInterfaces) {
  MadeTree tree;
  tree.file("/sys/kernel/iommu_groups/0/type", "DMA\n")
      .folder("/sys/kernel/iommu_groups/1")
      .file("/proc/cmdline", "quiet iommu=pt\n")
      .folder("/sys/class/net/docker0")
      .folder("/sys/class/net/eth0");
  Facts facts = read_facts(tree.root());
  EXPECT_EQ(facts.iommu_groups, 2);
  EXPECT_EQ(facts.iommu_passthrough, false) << "the group's own type counts";
  EXPECT_EQ(facts.infiniband_devices, 0);
  EXPECT_EQ(facts.network_interfaces, std::vector<std::string>({"docker0", "eth0"}));
  tree.file("/sys/kernel/iommu_groups/0/type", "identity\n").folder("/sys/class/infiniband/mlx5_0");
  facts = read_facts(tree.root());
  EXPECT_EQ(facts.iommu_passthrough, true);
  EXPECT_EQ(facts.infiniband_devices, 1);
  std::filesystem::remove(tree.root() / "sys/kernel/iommu_groups/0/type");
  EXPECT_EQ(read_facts(tree.root()).iommu_passthrough, true)
      << "an older kernel: by its command line";
}

TEST(PcieLinkFacts, OfACardInANarrowSlot) {
  MadeTree tree;
  const std::string card = "/sys/devices/pci0000:00/0000:00:01.0/0000:65:00.0/";
  tree.file("/sys/devices/pci0000:00/0000:00:01.0/max_link_width", "4\n")
      .file(card + "current_link_width", "4\n")
      .file(card + "max_link_width", "16\n")
      .file(card + "current_link_speed", "2.5 GT/s PCIe\n")
      .file(card + "max_link_speed", "16.0 GT/s PCIe\n")
      .file(card + "numa_node", "1\n")
      .file(card + "local_cpulist", "8-15\n")
      .link("/sys/bus/pci/devices/0000:65:00.0",
            "../../../devices/pci0000:00/0000:00:01.0/0000:65:00.0");
  PcieLink link = read_pcie_link("0000:65:00.0", tree.root());
  EXPECT_EQ(link.width, 4);
  EXPECT_EQ(link.card_width, 16);
  EXPECT_EQ(link.slot_width, 4);
  EXPECT_EQ(link.generation, 1);
  EXPECT_EQ(link.card_generation, 4);
  EXPECT_EQ(link.numa_node, 1);
  EXPECT_EQ(link.near_cores->size(), 8u);
  tree.file(card + "numa_node", "-1\n")
      .file(card + "current_link_width", "255\n")
      .file(card + "current_link_speed", "Unknown\n");
  link = read_pcie_link("0000:65:00.0", tree.root());
  EXPECT_FALSE(link.numa_node || link.width || link.generation);
  EXPECT_FALSE(read_pcie_link("../../x", tree.root()).width) << "not a bus id";
}

TEST(FileSystem, OfAPathThatDoesNotExistYet) {
  MadeTree tree;
  const std::string folder = std::filesystem::canonical(tree.root()).string();
  tree.file("/proc/self/mountinfo",
            "1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / " + folder + " ro - nfs4 server:/x rw\n");
  const FileSystemFacts facts = read_file_system(tree.root() / "runs/deep/er", tree.root());
  EXPECT_EQ(facts.type, "nfs4");
  EXPECT_EQ(facts.mount_point, folder);
  EXPECT_EQ(facts.folder, folder);
  EXPECT_TRUE(facts.network && facts.read_only && facts.writable);
  EXPECT_GT(facts.bytes.value(), facts.free_bytes.value());
  const FileSystemFacts unknown = read_file_system("/", tree.root() / "none");
  EXPECT_EQ(unknown.type, "");
  EXPECT_FALSE(unknown.network);
}

TEST(TryLock, WorksIsHeldOrUnknown) {
  MadeTree tree;
  tree.file("/a", "x");
  const std::filesystem::path file = tree.root() / "a";
  EXPECT_EQ(try_lock(file), Locking::kWorks);
  FileDescriptor writer;
  ASSERT_EQ(writer.open(file, O_RDWR), 0);
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
  EXPECT_EQ(try_lock(file), Locking::kHeld);
  EXPECT_EQ(try_lock(tree.root() / "none"), Locking::kUnknown);
}

TEST(Facts, OfThisMachine) {
  const Facts facts = read_facts();
  EXPECT_EQ(static_cast<int>(facts.allowed_cores.value().size()), usable_cores());
  EXPECT_GE(facts.online_cores.value().size(), facts.allowed_cores.value().size());
  EXPECT_GT(facts.memory.value(), facts.available_memory.value());
  EXPECT_GT(facts.open_files.value().soft, 0);
}

}  // namespace
}  // namespace dtrain::os
