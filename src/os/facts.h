#pragma once

// What a process may use of its machine and what does not change while it runs: cores, memory,
// limits of the control group and of ulimit, links of GPUs, file systems. Everything is read from
// the files of Linux below a root folder, so that a test gives a made tree. A value that this
// machine does not tell (a container hides files, a virtual machine has none) is absent, which is
// not the same as no limit. Never throws. Thread-safety: any thread.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "os/kernel_text.h"
#include "text/named_enum.h"

namespace dtrain::os {

struct Facts {
  // Cores, by number.
  std::optional<std::vector<int>> online_cores;
  // Affinity mask of this process (taskset, mpirun, Slurm, cpuset)
  std::optional<std::vector<int>> allowed_cores;
  std::optional<std::vector<int>> cpuset;  // cores that the control group allows
  std::optional<double> cpu_quota;  // cores that its time limit amounts to; infinity: no limit
  std::optional<std::string> cpu_model;
  // The first governor of an allowed core that is not "performance"; if all are, "performance"
  std::optional<std::string> governor;
  // "intel_pstate" and "amd-pstate" have other meanings of governors
  std::optional<std::string> scaling_driver;
  std::optional<int> numa_nodes;

  // Bytes. kNoLimit where there is no limit.
  std::optional<int64_t> memory, available_memory;  // whole machine
  std::optional<int64_t> memory_limit;              // lowest of the control group and those above
  std::optional<int64_t> memory_used;  // the group with that limit, less file pages it can drop
  std::optional<int64_t> swap, free_swap;
  std::optional<int64_t> shared_memory, free_shared_memory;  // /dev/shm

  // Limits of this process (ulimit), and processes and threads of the control group. `processes`:
  // no limit for root.
  std::optional<ProcessLimit> open_files, processes, locked_memory, file_size, address_space;
  std::optional<int64_t> process_limit, processes_used;
  // Now, in this process namespace; with a limit of `processes` alone
  std::optional<int64_t> threads_of_user;

  std::optional<int> iommu_groups;        // 0: the IOMMU is off
  std::optional<bool> iommu_passthrough;  // devices use it without translation (iommu=pt)
  std::optional<int> infiniband_devices;
  std::optional<std::vector<std::string>> network_interfaces;
};
Facts read_facts(const std::filesystem::path& root = "/");

// Facts::cpu_quota alone. For a caller at every start: it reads no process and no device, as
// read_facts() does.
std::optional<double> read_cpu_quota(const std::filesystem::path& root = "/");

// The memory that processes of this control group can still take: of the machine, and within
// the limit.
std::optional<int64_t> usable_memory(const Facts&);
// The same as of now. For a caller that asks again and again: no other files are read.
std::optional<int64_t> read_usable_memory(const std::filesystem::path& root = "/");

// The PCIe link of a device, "0000:65:00.0". A link is narrower than its card where the slot has
// fewer lanes, and idle GPUs lower its generation.
struct PcieLink {
  std::optional<int> width, card_width, slot_width;  // lanes now; of the card; of the port above it
  std::optional<int> generation, card_generation;    // now; of the card
  std::optional<int> numa_node;                      // absent: none
  std::optional<std::vector<int>> near_cores;
};
PcieLink read_pcie_link(const std::string& bus_id, const std::filesystem::path& root = "/");

// The file system of a path, which need not exist: that of the folder that it would be made in.
struct FileSystemFacts {
  std::string type;         // "ext4"; "": unknown
  std::string mount_point;  // "": unknown
  std::string folder;       // the existing folder or file that was looked at
  bool network = false, read_only = false, writable = false;  // writable: by this user
  std::optional<int64_t> bytes, free_bytes, free_files;       // for this user
};
FileSystemFacts read_file_system(const std::filesystem::path& path,
                                 const std::filesystem::path& root = "/");

// Whether a file or folder can be locked (flock, shared), as the HDF5 library does when it opens
// one. kHeld: another process has it open for writing.
enum class Locking { kUnknown, kWorks, kHeld, kFails };
constexpr auto names_of(Locking) { return names("unknown", "works", "held", "fails"); }
Locking try_lock(const std::filesystem::path& path);

}  // namespace dtrain::os
