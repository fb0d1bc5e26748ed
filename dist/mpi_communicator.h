#pragma once

// Collectives on host tensors over MPI. A thread of its own moves the bytes, because MPI makes no progress by itself,
// and it polls rather than blocks, so that abort() frees it and that a rank waiting for a late one leaves the core to
// others.
//
// all_reduce: every rank gets its slice from all, sums it in rank order (reduce_in_rank_order) and gives the sum to all;
// tensors of at most `direct_bytes` go to everyone whole, which is one exchange instead of two. Either way the result
// depends on the inputs alone, not on timing or topology.

#include <memory>

#include "dist/communicator.h"

namespace dtrain::dist {

struct MpiOptions {
  int64_t direct_bytes = 16 << 10;
  int64_t piece_bytes = 1 << 20;  // least size of the messages that a tensor is cut into (MPI counts end at 2^31)
};

// On a duplicate of MPI_COMM_WORLD. Collective. MPI must be initialised with MPI_THREAD_MULTIPLE and outlive the
// result.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options = {});

}  // namespace dtrain::dist
