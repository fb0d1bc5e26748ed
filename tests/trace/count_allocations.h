#pragma once

// Counts what threads allocate, in a test program that is linked with count_allocations.cpp, which replaces operator
// new. In a file of its own, so that the compiler does not see through it.

#include <cstdint>

namespace dtrain::testing {

// Calls of operator new by the calling thread so far.
int64_t allocations();

}  // namespace dtrain::testing
