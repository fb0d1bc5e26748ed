#pragma once

// Ranks as threads of one process, so that a test needs no mpirun: sums in rank order, CPU tensors
// only. Ranks that ask for different operations, and ranks that leave while others wait, are errors
// that name them instead of a hang.

#include <functional>
#include <memory>
#include <vector>

#include "dist/metered_communicator.h"

namespace dtrain::dist {

// Runs `body(communicator)` on `size` threads and waits for all of them. An exception aborts the
// communicators of the other ranks; the first one is rethrown.
void run_thread_world(int size, const std::function<void(MeteredCommunicator&)>& body);

// A communicator among the ranks of `world`, one of run_thread_world(), that give the same group,
// in the order of `order` and then of their ranks. When a rank destroys it, others that wait for
// that rank get an error. Collective.
std::unique_ptr<Communicator> split_thread_world(Communicator& world, int group, int order = 0);

// The ranks of `world` as those of several hosts: by rank, the host of each. A hierarchical
// communicator of two levels of threads, or with shared memory within each "host". Small chunks and
// slices, so that tests use all of its ways.
enum class WithinHost { kThreads, kSharedMemory };
std::unique_ptr<Communicator> make_hierarchical_of_threads(
    Communicator& world, const std::vector<int>& host_by_rank,
    WithinHost within = WithinHost::kThreads);

}  // namespace dtrain::dist
