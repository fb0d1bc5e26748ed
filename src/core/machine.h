#pragma once

// What this process may use of its machine, and the machine's name. Thread-safety: any thread.

#include <string>

namespace dtrain {

// The number of cores in the affinity mask of this process (set by taskset, a container or Slurm),
// which std::thread::hardware_concurrency() ignores.
int usable_cores();

std::string host_name();  // "localhost" if the system does not say

}  // namespace dtrain
