#pragma once

// Counts what a test program allocates that is linked with count_allocations (LIBS), which replaces
// operator new, and its calls of the system. In a file of its own, so that the compiler does not
// see through it.
// Thread-safety: any thread, but peak_bytes_of() from one at a time.

#include <cstdint>
#include <functional>

namespace dtrain::testing {

int64_t allocations();             // calls of operator new by the calling thread so far
int64_t allocations_of_process();  // by all threads
int64_t file_calls_of_process();   // calls that read or write files, pipes or sockets

// The most bytes that all threads held at once while `work` ran, of those allocated since it began.
int64_t peak_bytes_of(const std::function<void()>& work);

}  // namespace dtrain::testing
