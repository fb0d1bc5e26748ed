#pragma once

namespace dtrain {

// Cores that this process may use: of its affinity mask (taskset, a container, Slurm), which the standard library's
// hardware_concurrency() does not look at.
int usable_cores();

}  // namespace dtrain
