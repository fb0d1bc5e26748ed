#include "os/facts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "os/cgroup.h"
#include "os/file_descriptor.h"
#include "text/strings.h"

namespace dtrain::os {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOwnGroups = "/proc/self/cgroup", kMounts = "/proc/self/mountinfo";

class Tree {
 public:
  explicit Tree(fs::path root) : root_(std::move(root)) {}

  fs::path at(std::string_view path) const { return root_ / fs::path(path).relative_path(); }

  // nullopt: there is no such file, or it cannot be read.
  std::optional<std::string> read(std::string_view path) const {
    std::ifstream in(at(path), std::ios::binary);
    std::ostringstream text;
    if (!in || !(text << in.rdbuf()))
      return std::nullopt;  // an empty file counts as one that cannot be read
    return text.str();
  }

  std::string text(std::string_view path) const { return read(path).value_or(""); }

  std::optional<std::string> line(std::string_view path) const {
    const std::optional<std::string> text = read(path);
    if (!text) return std::nullopt;
    return std::string(line_of(*text));
  }

  // nullopt: there is no such folder. Sorted.
  std::optional<std::vector<std::string>> names(std::string_view folder) const {
    std::error_code failed;
    std::vector<std::string> found;
    fs::directory_iterator entry(at(folder), failed);
    if (failed) return std::nullopt;
    for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed)) {
      found.push_back(entry->path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  fs::path root_;
};

template <typename T>
void keep_smaller(std::optional<T>& value, const std::optional<T>& other) {
  if (other && (!value || *other < *value)) value = other;
}

std::optional<int64_t> bytes_of_kib(const std::optional<int64_t>& kib) {
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

void read_cores(const Tree& tree, Facts& facts) {
  if (const auto online = tree.read("/sys/devices/system/cpu/online"))
    facts.online_cores = parse_list(*online);
  const std::string status = tree.text("/proc/self/status");
  constexpr std::string_view kAllowed = "Cpus_allowed_list:";
  if (const size_t at = status.find(kAllowed); at != std::string::npos) {
    facts.allowed_cores = parse_list(std::string_view(status).substr(at + kAllowed.size()));
  }
  const std::string cpuinfo = tree.text("/proc/cpuinfo");
  if (const size_t at = cpuinfo.find("model name"); at != std::string::npos) {
    const std::string_view line = std::string_view(cpuinfo).substr(at, cpuinfo.find('\n', at) - at);
    facts.cpu_model = line_of(line.substr(std::min(line.find(':') + 1, line.size())));
  }
  for (const int core : facts.allowed_cores.value_or(std::vector<int>())) {
    const std::string folder = str("/sys/devices/system/cpu/cpu", core, "/cpufreq/");
    const auto governor = tree.line(folder + "scaling_governor");
    if (!governor) continue;
    facts.governor = governor;
    facts.scaling_driver = tree.line(folder + "scaling_driver");
    if (*governor != "performance") break;
  }
  if (const auto nodes = tree.read("/sys/devices/system/node/online")) {
    if (const auto list = parse_list(*nodes)) facts.numa_nodes = static_cast<int>(list->size());
  }
}

// The time limit of one group, in cores.
std::optional<double> quota_of(const Tree& tree, int version, const std::string& folder) {
  if (version == 2) return cores_of_quota(tree.text(folder + "/cpu.max"));
  const auto quota = tree.line(folder + "/cpu.cfs_quota_us"),
             period = tree.line(folder + "/cpu.cfs_period_us");
  return quota && period ? cores_of_quota(*quota + " " + *period) : std::nullopt;
}

// A limit of version 1 that was never set is the largest multiple of a page.
std::optional<int64_t> memory_limit_of(const Tree& tree, int version, const std::string& folder) {
  const auto limit =
      parse_limit(tree.text(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes")));
  if (limit && *limit >= kNoLimit - (1 << 20)) return kNoLimit;
  return limit;
}

std::optional<int64_t> memory_used_of(const Tree& tree, int version, const std::string& folder) {
  const auto used = parse_limit(
      tree.text(folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes")));
  if (!used) return std::nullopt;
  const std::string stat = tree.text(folder + "/memory.stat");
  const auto droppable = number_of(stat, version == 2 ? "inactive_file" : "total_inactive_file");
  return std::max<int64_t>(0, *used - droppable.value_or(0));
}

void read_memory_limit(const Tree& tree, const std::string& groups,
                       const std::vector<Mount>& mounts, Facts& facts) {
  const ControllerFolders memory = folders_of("memory", groups, mounts);
  for (const std::string& folder : memory.folders) {
    const auto limit = memory_limit_of(tree, memory.version, folder);
    if (!limit || (facts.memory_limit && *limit >= *facts.memory_limit)) continue;
    facts.memory_limit = limit;
    facts.memory_used =
        *limit == kNoLimit ? std::nullopt : memory_used_of(tree, memory.version, folder);
  }
  if (!memory.folders.empty() && !facts.memory_limit) facts.memory_limit = kNoLimit;
}

std::optional<double> quota_in(const Tree& tree, const std::string& groups,
                               const std::vector<Mount>& mounts) {
  std::optional<double> quota;
  const ControllerFolders cpu = folders_of("cpu", groups, mounts);
  for (const std::string& folder : cpu.folders)
    keep_smaller(quota, quota_of(tree, cpu.version, folder));
  // A hierarchy is mounted, and no group of it has such a file: the root group has no limits.
  constexpr double kNoQuota = std::numeric_limits<double>::infinity();
  return cpu.folders.empty() ? quota : quota.value_or(kNoQuota);
}

void read_control_group(const Tree& tree, const std::string& groups,
                        const std::vector<Mount>& mounts, Facts& facts) {
  facts.cpu_quota = quota_in(tree, groups, mounts);
  const ControllerFolders cpuset = folders_of("cpuset", groups, mounts);
  for (const std::string& folder : cpuset.folders) {
    const auto list = tree.read(
        folder + (cpuset.version == 2 ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus"));
    if (!list) continue;
    facts.cpuset = parse_list(*list);
    break;  // the set of the own group is within those of the groups above
  }

  const ControllerFolders pids = folders_of("pids", groups, mounts);
  for (const std::string& folder : pids.folders) {
    const auto limit = parse_limit(tree.text(folder + "/pids.max"));
    if (!limit || (facts.process_limit && *limit >= *facts.process_limit)) continue;
    facts.process_limit = limit;
    facts.processes_used = parse_limit(tree.text(folder + "/pids.current"));
  }
  if (!pids.folders.empty() && !facts.process_limit) facts.process_limit = kNoLimit;
}

// Of the machine, and what the control group allows.
void read_memory(const Tree& tree, const std::string& groups, const std::vector<Mount>& mounts,
                 Facts& facts) {
  read_memory_limit(tree, groups, mounts, facts);
  const std::string meminfo = tree.text("/proc/meminfo");
  facts.memory = bytes_of_kib(number_of(meminfo, "MemTotal"));
  facts.available_memory = bytes_of_kib(number_of(meminfo, "MemAvailable"));
  facts.swap = bytes_of_kib(number_of(meminfo, "SwapTotal"));
  facts.free_swap = bytes_of_kib(number_of(meminfo, "SwapFree"));
  struct statvfs space {};
  if (::statvfs(tree.at("/dev/shm").c_str(), &space) == 0) {
    facts.shared_memory = static_cast<int64_t>(space.f_blocks * space.f_frsize);
    facts.free_shared_memory = static_cast<int64_t>(space.f_bavail * space.f_frsize);
  }
}

// Of all processes of the user.
std::optional<int64_t> threads_of(int64_t user, const Tree& tree) {
  const auto names = tree.names("/proc");
  if (!names) return std::nullopt;
  int64_t threads = 0;
  for (const std::string& name : *names) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string status = tree.text(str("/proc/", name, "/status"));
    if (number_of(status, "Uid") == user) threads += number_of(status, "Threads").value_or(0);
  }
  return threads;
}

void read_limits(const Tree& tree, Facts& facts) {
  const std::string limits = tree.text("/proc/self/limits");
  facts.open_files = limit_of(limits, "Max open files");
  facts.processes = limit_of(limits, "Max processes");
  const auto user = number_of(tree.text("/proc/self/status"), "Uid");  // the real one
  constexpr int64_t kRoot = 0;
  if (facts.processes && user == kRoot)
    facts.processes = ProcessLimit{};  // Linux does not enforce it for root
  if (facts.processes && user && facts.processes->soft != kNoLimit)
    facts.threads_of_user = threads_of(*user, tree);
  facts.locked_memory = limit_of(limits, "Max locked memory");
  facts.file_size = limit_of(limits, "Max file size");
  facts.address_space = limit_of(limits, "Max address space");
}

void read_buses(const Tree& tree, Facts& facts) {
  if (const auto groups = tree.names("/sys/kernel/iommu_groups")) {
    facts.iommu_groups = static_cast<int>(groups->size());
    const std::string options = " " + std::string(line_of(tree.text("/proc/cmdline"))) + " ";
    // The type of a group says what holds, whatever the kernel's options are.
    const auto type = groups->empty()
                          ? std::nullopt
                          : tree.line("/sys/kernel/iommu_groups/" + groups->front() + "/type");
    facts.iommu_passthrough = type ? *type == "identity"
                                   : options.find(" iommu=pt ") != std::string::npos ||
                                         options.find(" iommu.passthrough=1 ") != std::string::npos;
  }
  if (const auto devices = tree.names("/sys/class/infiniband")) {
    facts.infiniband_devices = static_cast<int>(devices->size());
  } else if (tree.names("/sys/class")) {
    facts.infiniband_devices = 0;
  }
  facts.network_interfaces = tree.names("/sys/class/net");
}

std::optional<int> small_number(const std::optional<std::string>& text) {
  const auto value = text ? parse_limit(*text) : std::nullopt;
  return value && *value <= std::numeric_limits<int>::max()
             ? std::optional(static_cast<int>(*value))
             : std::nullopt;
}

// The width of a link that the kernel does not know is 0, 255 or, of a port without a link, 63.
std::optional<int> lanes(const std::optional<std::string>& text) {
  const auto width = small_number(text);
  return width && *width >= 1 && *width <= 32 ? width : std::nullopt;
}

}  // namespace

Facts read_facts(const fs::path& root) {
  const Tree tree(root);
  Facts facts;
  read_cores(tree, facts);
  const std::string groups = tree.text(kOwnGroups);
  const std::vector<Mount> mounts = parse_mounts(tree.text(kMounts));
  read_control_group(tree, groups, mounts, facts);
  read_memory(tree, groups, mounts, facts);
  read_limits(tree, facts);
  read_buses(tree, facts);
  return facts;
}

std::optional<double> read_cpu_quota(const fs::path& root) {
  const Tree tree(root);
  return quota_in(tree, tree.text(kOwnGroups), parse_mounts(tree.text(kMounts)));
}

std::optional<int64_t> read_usable_memory(const fs::path& root) {
  const Tree tree(root);
  Facts facts;
  read_memory(tree, tree.text(kOwnGroups), parse_mounts(tree.text(kMounts)), facts);
  return usable_memory(facts);
}

std::optional<int64_t> usable_memory(const Facts& facts) {
  std::optional<int64_t> usable = facts.available_memory;
  if (facts.memory_limit && *facts.memory_limit != kNoLimit) {
    keep_smaller(usable, std::optional(std::max<int64_t>(
                             0, *facts.memory_limit - facts.memory_used.value_or(0))));
  }
  return usable;
}

PcieLink read_pcie_link(const std::string& bus_id, const fs::path& root) {
  std::string id = bus_id;
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (id.empty() || id.find_first_not_of("0123456789abcdef:.") != std::string::npos) return {};
  const Tree tree(root);
  const std::string device = "/sys/bus/pci/devices/" + id;
  PcieLink link;
  link.width = lanes(tree.line(device + "/current_link_width"));
  link.card_width = lanes(tree.line(device + "/max_link_width"));
  // The entry is a link into the tree of devices
  link.slot_width = lanes(tree.line(device + "/../max_link_width"));
  link.generation = pcie_generation(tree.text(device + "/current_link_speed"));
  link.card_generation = pcie_generation(tree.text(device + "/max_link_speed"));
  if (const auto node = tree.line(device + "/numa_node"); node && !node->starts_with('-')) {
    link.numa_node = small_number(node);
  }
  if (const auto cores = tree.read(device + "/local_cpulist")) link.near_cores = parse_list(*cores);
  return link;
}

FileSystemFacts read_file_system(const fs::path& path, const fs::path& root) {
  FileSystemFacts facts;
  std::error_code failed;
  fs::path existing = fs::absolute(path, failed).lexically_normal();
  while (existing.has_relative_path() && !fs::exists(existing, failed))
    existing = existing.parent_path();
  if (const fs::path real = fs::canonical(existing, failed); !failed) existing = real;
  facts.folder = existing.string();
  const std::vector<Mount> mounts = parse_mounts(Tree(root).text(kMounts));
  if (const Mount* mount = mount_of(mounts, facts.folder)) {
    facts.type = mount->type;
    facts.mount_point = mount->point;
    facts.network = is_network(mount->type);
    facts.read_only = mount->read_only;
  }
  facts.writable = ::access(existing.c_str(), W_OK) == 0;
  struct statvfs space {};
  if (::statvfs(existing.c_str(), &space) == 0) {
    facts.bytes = static_cast<int64_t>(space.f_blocks * space.f_frsize);
    facts.free_bytes = static_cast<int64_t>(space.f_bavail * space.f_frsize);
    if (space.f_files > 0)
      facts.free_files = static_cast<int64_t>(space.f_favail);  // 0: it has no such limit
    facts.read_only = facts.read_only || (space.f_flag & ST_RDONLY) != 0;
  }
  return facts;
}

Locking try_lock(const fs::path& path) {
  FileDescriptor file;
  if (file.open(path, O_RDONLY | O_NONBLOCK) != 0) return Locking::kUnknown;
  int result = 0;
  do {
    result = ::flock(file.get(), LOCK_SH | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Locking::kWorks;  // and given back by the end of `file`
  return errno == EWOULDBLOCK ? Locking::kHeld : Locking::kFails;
}

}  // namespace dtrain::os
