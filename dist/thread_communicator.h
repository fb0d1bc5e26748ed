#pragma once

// Ranks as threads of one process, for tests: sums in rank order, CPU tensors only.

#include <functional>
#include <memory>
#include <vector>

#include "dist/communicator.h"

namespace dtrain::dist {

// Runs `body(communicator)` on `size` threads; rethrows the first exception after all have ended (an exception aborts
// the communicators of the others).
void run_thread_world(int size, const std::function<void(Communicator&)>& body);

}  // namespace dtrain::dist
