#pragma once

// Collectives on CPU tensors among the ranks of one host, through memory that they share. No
// message is copied: an all_reduce of a tensor from allocate() takes one pass, in which rank r adds
// slice r of all ranks in rank order (reduce_in_rank_order) and writes the sum to all of them; a
// broadcast is one copy on each rank. Other tensors travel in pieces through slots of fixed size.
//
// What takes longer than waking a thread runs on a communication thread, so that it overlaps with
// backward. What is shorter is done by the caller in two halves: the call posts the contribution,
// and wait() adds up those of all ranks. Each goes to the thread if earlier operations are still
// there, so that operations always run in the order of issue.
//
// A rank that dies, leaves, aborts, or is at another operation ends the waits of all others with a
// CommError that says so, a death within about a tenth of a second.

#include <memory>

#include "dist/communicator.h"
#include "dist/shared_segment.h"

namespace dtrain::dist {

// Among the ranks of `host`, all of which must be on one host. DeviceError on all ranks if any of
// them cannot share memory. `host` is not used afterwards. Collective.
std::unique_ptr<Communicator> make_shared_memory_communicator(
    Communicator& host, const SharedMemoryOptions& options = {});

}  // namespace dtrain::dist
