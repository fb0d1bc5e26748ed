#pragma once

// Which cores this rank may use. `mpirun -np 2` binds each rank to one core, which is too little
// for reader threads and BLAS. A process may widen its own mask again, up to the cores that the
// user gave to mpirun.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dist/world.h"

namespace dtrain::dist {

// The share of one of `local_size` ranks. Shares are contiguous and disjoint, and together all of
// `cores`; with fewer cores than ranks, every share is all of them. Pure.
std::vector<int> share_of(std::span<const int> cores, int local_rank, int local_size);

struct CoreShare {
  int cores = 1;  // that this rank may use now
  int ranks = 1;  // that share them
  // The number of threads that keeps the cores busy without oversubscribing them. Threads of OpenMP
  // spin while they wait: with more of them than cores, steps take up to 20 times as long.
  int threads() const { return cores > ranks ? cores / ranks : 1; }
};

// What a time limit of the control group (`docker run --cpus`, a CPU limit of Kubernetes) leaves of
// a share: `quota` cores, infinity without a limit, for all `local_size` ranks of the node. With
// more threads than that, the kernel stops all of them for a part of every 0.1 s. Pure.
CoreShare within_quota(CoreShare share, double quota, int local_size);

// The computing threads of a rank: `wanted` (device.threads) if it is not 0; otherwise those of
// `share`, and no more than `omp_num_threads`, the value of OMP_NUM_THREADS, says ("8", or "8,2"
// with 8 at the outermost level; empty, or no such number: no limit). Unlike in other programs with
// OpenMP it adds no threads: a shell that exports the number of cores would give that many to each
// rank. More threads than cores are allowed, because their number decides the bits of a result; but
// not many more: ConfigError for `wanted` beyond most_threads(). Pure.
int most_threads(const CoreShare&);
int computing_threads(int64_t wanted, std::string_view omp_num_threads, const CoreShare& share);

// Gives this rank its share of the cores that mpirun itself may use, so that the limit of a
// container or of taskset stays. Cores of one socket, and threads of one core, are kept together.
// Ranks of srun keep the cores that Slurm bound them to; if it bound none, they share the node in
// the same way. Rank 0 logs a change. Call it before other threads start, because they inherit the
// mask of the thread that starts them.
CoreShare widen_affinity(const World& world);

}  // namespace dtrain::dist
