#include "support/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t of_thread = 0;
std::atomic<int64_t> of_process = 0;

}  // namespace

// Those for arrays call these.
void* operator new(std::size_t size) {
  ++of_thread;
  of_process.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace dtrain::testing {

int64_t allocations() { return of_thread; }
int64_t allocations_of_process() { return of_process; }

}  // namespace dtrain::testing
