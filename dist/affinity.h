#pragma once

// Which cores this rank may use. `mpirun -np 2` binds each rank to one core, which starves reader threads and BLAS; a
// process may widen its own mask again, up to what the user gave to mpirun.

#include <span>
#include <vector>

#include "dist/world.h"

namespace dtrain::dist {

// The share of one of `local_size` ranks: contiguous, disjoint and together all of `cores`; with fewer cores than
// ranks, all of them for everyone. Pure.
std::vector<int> share_of(std::span<const int> cores, int local_rank, int local_size);

struct CoreShare {
  int cores = 1;                                                     // that this rank may use now
  int ranks = 1;                                                     // that share them
  int threads() const { return cores > ranks ? cores / ranks : 1; }  // that keep them busy without crowding
};

// Gives this rank its share of the cores that mpirun itself may use (a container's or taskset's limit stays), with
// cores of one socket and threads of one core side by side. Ranks of srun keep the cores that Slurm bound them to; if
// it bound none, they share the node likewise. Says so on rank 0 if something changed. Call
// before other threads start: they inherit the mask of the one that starts them.
CoreShare widen_affinity(const World& world);

}  // namespace dtrain::dist
