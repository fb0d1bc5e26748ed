#pragma once

// Counts what a test program allocates that is linked with count_allocations (LIBS), which replaces operator new. In a
// file of its own, so that the compiler does not see through it. Thread-safety: any thread.

#include <cstdint>

namespace dtrain::testing {

int64_t allocations();             // calls of operator new by the calling thread so far
int64_t allocations_of_process();  // by all threads

}  // namespace dtrain::testing
