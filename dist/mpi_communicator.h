#pragma once

// Collectives on host tensors over MPI, on a thread of their own or by the caller that waits
// (CommThread), because MPI makes progress only inside its calls. These poll instead of blocking,
// so that abort() can end a wait and a rank that waits for a late one leaves its core to others.
//
// all_reduce is dtrain's own, because MPI's may add in any order: every rank receives its slice
// from all ranks, sums it in rank order (reduce_in_rank_order) and sends the sum to all. Tensors of
// at most `direct_bytes` are sent whole, which is one exchange instead of two. Either way the
// result depends on the inputs alone, not on timing or topology. broadcast, all_gather and barrier
// are MPI's.

#include <memory>

#include "dist/communicator.h"

namespace dtrain::dist {

struct MpiOptions {
  int64_t direct_bytes = 16 << 10;
  int64_t message_bytes = 1 << 20;  // the smallest message that a larger tensor is cut into
  // The ranks that give the same number, 0 or more, form a communicator of their own
  int group = 0;
  int order = 0;  // sorts the ranks of the group; ranks that give the same number keep their order
};

// A communicator among the ranks of MPI_COMM_WORLD that give the same group. Its errors name ranks
// of MPI_COMM_WORLD. MPI must be initialized with MPI_THREAD_MULTIPLE and outlive the result.
// Collective over MPI_COMM_WORLD.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options = {});

// The size of the messages in which `bytes` travel: about 64 of them, none smaller than `smallest`,
// and none above 1 GiB, because MPI counts are int. Pure.
int64_t message_size(int64_t bytes, int64_t smallest);

}  // namespace dtrain::dist
