#include "os/kernel_text.h"

#include <algorithm>
#include <array>
#include <limits>

#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::os {
namespace {

constexpr size_t kMostOfList = 1 << 16;

constexpr std::string_view kSpaces = " \t\r\n";

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return found;
}

// Takes the next line from `text`.
std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// The number that `text` begins with, after spaces.
std::optional<int64_t> leading_number(std::string_view text) {
  text = trimmed(text);
  return parse_number<int64_t>(text.substr(0, text.find_first_not_of("-0123456789")));
}

// mountinfo writes space, tab, line feed and backslash as three octal digits.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t k) {
      return i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7';
    };
    if (text[i] != '\\' || !digit(1) || !digit(2) || !digit(3)) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return out;
}

}  // namespace

std::string_view line_of(std::string_view text) { return trimmed(text.substr(0, text.find('\n'))); }

std::optional<std::vector<int>> parse_list(std::string_view text) {
  std::vector<int> all;
  text = line_of(text);
  if (text.empty()) return all;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_number<int>(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos
                          ? first
                          : parse_number<int>(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
    if (static_cast<size_t>(*last - *first) + all.size() >= kMostOfList) return std::nullopt;
    for (int number = *first; number <= *last; ++number) all.push_back(number);
  }
  return all;
}

std::optional<int64_t> number_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (line.find_first_of(": \t\r") == 0) return leading_number(line.substr(1));
  }
  return std::nullopt;
}

std::optional<int64_t> parse_limit(std::string_view text) {
  text = line_of(text);
  if (text == "max" || text == "unlimited") return kNoLimit;
  const auto value = parse_number<int64_t>(text);
  if (value) return *value < 0 ? kNoLimit : *value;
  return parse_number<uint64_t>(text) ? std::optional(kNoLimit)
                                      : std::nullopt;  // beyond what memory can be
}

std::optional<ProcessLimit> limit_of(std::string_view limits, std::string_view name) {
  while (!limits.empty()) {
    std::string_view line = next_line(limits);
    if (!line.starts_with(name)) continue;
    const std::vector<std::string_view> values = words(line.substr(name.size()));
    if (values.size() < 2) return std::nullopt;
    const auto soft = parse_limit(values[0]), hard = parse_limit(values[1]);
    if (!soft || !hard) return std::nullopt;
    return ProcessLimit{*soft, *hard};
  }
  return std::nullopt;
}

std::vector<Mount> parse_mounts(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  while (!mountinfo.empty()) {
    // ID PARENT DEVICE ROOT POINT OPTIONS [OPTIONAL...] - TYPE SOURCE OPTIONS
    const std::vector<std::string_view> parts = words(next_line(mountinfo));
    const auto dash = std::find(parts.begin(), parts.end(), "-");
    if (dash - parts.begin() < 6 || parts.end() - dash < 4) continue;
    const std::string options(dash[3]);
    mounts.push_back({.root = unescaped(parts[3]),
                      .point = unescaped(parts[4]),
                      .type = std::string(dash[1]),
                      .options = options,
                      .read_only = lists(parts[5], "ro") || lists(options, "ro")});
  }
  return mounts;
}

bool lists(std::string_view list, std::string_view entry) {
  return std::ranges::count(split(list, ','), entry) > 0;
}

const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    const std::string_view point = mount.point;
    const bool above = point == "/" || (path.starts_with(point) &&
                                        (path.size() == point.size() || path[point.size()] == '/'));
    // Of two mounts at one point, the later one hides the other.
    if (above && (best == nullptr || point.size() >= best->point.size())) best = &mount;
  }
  return best;
}

bool is_network(std::string_view type) {
  static constexpr std::array kTypes = {
      "nfs",          "nfs4",         "lustre",      "gpfs",        "beegfs",
      "ceph",         "fuse.ceph",    "cifs",        "smb3",        "smbfs",
      "9p",           "afs",          "fuse.afs",    "glusterfs",   "panfs",
      "wekafs",       "orangefs",     "pvfs2",       "ocfs2",       "gfs2",
      "fuse.sshfs",   "ncpfs",        "dvs",         "fuse.s3fs",   "fuse.glusterfs",
      "fuse.juicefs", "fuse.gcsfuse", "fuse.goofys", "fuse.rclone", "virtiofs"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

std::optional<double> cores_of_quota(std::string_view cpu_max) {
  const std::vector<std::string_view> parts = words(cpu_max);
  if (parts.size() != 2) return std::nullopt;
  const auto quota = parse_limit(parts[0]), period = parse_number<int64_t>(parts[1]);
  if (!quota || !period || *period <= 0) return std::nullopt;
  if (*quota == kNoLimit) return std::numeric_limits<double>::infinity();
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<int> pcie_generation(std::string_view link_speed) {
  static constexpr std::array kSpeeds = {"2.5", "5", "8", "16", "32", "64"};  // GT/s
  link_speed = line_of(link_speed);
  std::string_view number = link_speed.substr(0, link_speed.find(' '));
  if (link_speed.find("GT/s") == std::string_view::npos) return std::nullopt;
  if (number.ends_with(".0")) number.remove_suffix(2);
  const auto found = std::find(kSpeeds.begin(), kSpeeds.end(), number);
  if (found == kSpeeds.end()) return std::nullopt;
  return static_cast<int>(found - kSpeeds.begin()) + 1;
}

std::optional<CpuSeconds> parse_cpu_seconds(std::string_view stat, double ticks_per_second) {
  const std::vector<std::string_view> parts = words(line_of(stat));
  // cpu user nice system idle iowait irq softirq steal [guest guest_nice, which user and nice have
  // in them]
  if (parts.size() < 9 || parts[0] != "cpu" || !(ticks_per_second > 0)) return std::nullopt;
  std::array<double, 8> seconds{};
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto ticks = parse_number<uint64_t>(parts[i + 1]);
    if (!ticks) return std::nullopt;
    seconds[i] = static_cast<double>(*ticks) / ticks_per_second;
  }
  return CpuSeconds{.busy = seconds[0] + seconds[1] + seconds[2] + seconds[5] + seconds[6],
                    .idle = seconds[3],
                    .io_wait = seconds[4],
                    .steal = seconds[7]};
}

std::vector<std::string_view> stat_words(std::string_view stat) {
  const size_t end = stat.rfind(')');  // the name may contain anything
  return end == std::string_view::npos ? std::vector<std::string_view>()
                                       : words(stat.substr(end + 1));
}

}  // namespace dtrain::os
