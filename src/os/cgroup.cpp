#include "os/cgroup.h"

#include <optional>

#include "text/strings.h"

namespace dtrain::os {
namespace {

// The group of a hierarchy, from lines "ID:CONTROLLER,CONTROLLER:/GROUP"; version 2 has no
// controllers there.
std::optional<std::string> group_in(std::string_view self_cgroup, std::string_view controller) {
  for (const std::string& line : split(self_cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : lists(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// A container may see only a part of the tree: `mount.root` is then the group that its mount point
// shows. A group outside of it (/.., or that of the host) has no folder here, and the mount point
// is the nearest that is known.
std::vector<std::string> folders_below(const Mount& mount, const std::string& group) {
  std::string below;
  if (mount.root == "/" && group.starts_with('/') && group.find("/..") == std::string::npos) {
    below = group;
  } else if (group.starts_with(mount.root + "/")) {
    below = group.substr(mount.root.size());
  }
  while (below.ends_with('/')) below.pop_back();
  std::vector<std::string> folders;
  for (; !below.empty(); below.resize(below.rfind('/'))) folders.push_back(mount.point + below);
  folders.push_back(mount.point);
  return folders;
}

}  // namespace

ControllerFolders folders_of(std::string_view controller, std::string_view self_cgroup,
                             const std::vector<Mount>& mounts) {
  if (const auto group = group_in(self_cgroup, controller)) {
    for (const Mount& mount : mounts) {
      if (mount.type == "cgroup" && lists(mount.options, controller))
        return {1, folders_below(mount, *group)};
    }
  }
  if (const auto group = group_in(self_cgroup, "")) {
    for (const Mount& mount : mounts) {
      if (mount.type == "cgroup2") return {2, folders_below(mount, *group)};
    }
  }
  return {};
}

}  // namespace dtrain::os
