#include "support/count_allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

namespace {

thread_local int64_t of_thread = 0;
std::atomic<int64_t> of_process = 0, bytes = 0, peak = 0;

void count(void* memory) {
  ++of_thread;
  of_process.fetch_add(1, std::memory_order_relaxed);
  const auto more = static_cast<int64_t>(::malloc_usable_size(memory));
  const int64_t now = bytes.fetch_add(more, std::memory_order_relaxed) + more;
  for (int64_t known = peak; now > known && !peak.compare_exchange_weak(known, now);) {
  }
}

void release(void* memory) noexcept {
  bytes.fetch_sub(static_cast<int64_t>(::malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// Those for arrays call these.
// Not the library's nothrow one, whose memory a sanitizer would see given back by another function.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory != nullptr) count(memory);
  return memory;
}
void* operator new(std::size_t size) {
  void* memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }

namespace dtrain::testing {

int64_t allocations() { return of_thread; }
int64_t allocations_of_process() { return of_process; }

int64_t peak_bytes_of(const std::function<void()>& work) {
  const int64_t before = bytes;
  peak = before;
  work();
  return peak - before;
}

int64_t file_calls_of_process() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t calls = 0;
  for (int64_t value = 0; file >> name >> value;) {
    if (name == "syscr:" || name == "syscw:") calls += value;
  }
  return calls;
}

}  // namespace dtrain::testing
