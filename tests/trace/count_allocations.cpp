#include "trace/count_allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t count = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++count;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace dtrain::testing {

int64_t allocations() { return count; }

}  // namespace dtrain::testing
