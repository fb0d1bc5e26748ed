#pragma once

// Ranks as threads of one process, so that a test needs no mpirun: sums in rank order, CPU tensors only. Ranks that ask
// for different operations, and ranks that leave while others wait, are errors that name them instead of a hang.

#include <functional>

#include "dist/communicator.h"

namespace dtrain::dist {

// Runs `body(communicator)` on `size` threads and waits for all of them. An exception aborts the communicators of the
// other ranks; the first one is rethrown.
void run_thread_world(int size, const std::function<void(Communicator&)>& body);

}  // namespace dtrain::dist
