#pragma once

// Where the limits of this process's control group are: version 1, version 2, both at once
// (hybrid), nested groups, and containers, which see only a part of the tree. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "os/kernel_text.h"

namespace dtrain::os {

// The folders of a controller ("cpu", "memory", "cpuset", "pids"): that of the process's own group
// first, then its parents up to the highest one that is mounted. A limit of any of them holds.
// Empty if there is no such controller.
struct ControllerFolders {
  int version = 0;  // 1 or 2; 0: none
  std::vector<std::string> folders;
};

// `self_cgroup` is the text of /proc/self/cgroup.
ControllerFolders folders_of(std::string_view controller, std::string_view self_cgroup,
                             const std::vector<Mount>& mounts);

}  // namespace dtrain::os
