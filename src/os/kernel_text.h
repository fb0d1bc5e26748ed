#pragma once

// Parsers of the texts by which Linux describes a machine: files of /proc, /sys and of control
// groups. A text that is empty, cut or of another form gives no value, never an error, because
// kernels and containers leave files out. Thread-safety: pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::os {

inline constexpr int64_t kNoLimit = INT64_MAX;  // a limit that is known not to exist

std::string_view line_of(std::string_view text);  // the first line, without white space at its ends
// "0-2,8" -> 0 1 2 8; "" -> none in the list
std::optional<std::vector<int>> parse_list(std::string_view text);
// The number after `key` in lines such as "nr_throttled 12" and "MemTotal:  24108 kB"
std::optional<int64_t> number_of(std::string_view text, std::string_view key);
// "max", "unlimited" and negative numbers are kNoLimit
std::optional<int64_t> parse_limit(std::string_view text);

// A row of /proc/PID/limits.
struct ProcessLimit {
  int64_t soft = kNoLimit, hard = kNoLimit;
};
std::optional<ProcessLimit> limit_of(std::string_view limits,
                                     std::string_view name);  // "Max open files"

// /proc/self/mountinfo.
struct Mount {
  std::string root, point;    // what is mounted, in its own file system; and where
  std::string type, options;  // "nfs4"; of the file system, "rw,cpu,cpuacct"
  bool read_only = false;
};
std::vector<Mount> parse_mounts(std::string_view mountinfo);
// Whether the list, separated by commas, has this entry.
bool lists(std::string_view list, std::string_view entry);
// The mount that an absolute path without links is on; null if there is none.
const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path);
// Whether files of such a file system come over a network, and so may lack locks and be slow
// to open.
bool is_network(std::string_view type);

std::optional<double> cores_of_quota(
    std::string_view cpu_max);  // "150000 100000" -> 1.5; infinity: no limit
std::optional<int> pcie_generation(std::string_view link_speed);  // "16.0 GT/s PCIe" -> 4
// The first line of /proc/stat: seconds of all cores since the start.
struct CpuSeconds {
  double busy = 0, idle = 0, io_wait = 0, steal = 0;  // busy: all that is none of the others
};
std::optional<CpuSeconds> parse_cpu_seconds(std::string_view stat, double ticks_per_second);
// What follows "PID (NAME) " in /proc/PID/stat, by words; empty for another text. [0] is the state,
// field 3 of proc(5).
std::vector<std::string_view> stat_words(std::string_view stat);

}  // namespace dtrain::os
