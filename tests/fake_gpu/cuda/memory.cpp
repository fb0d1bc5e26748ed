#include "cuda/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/settings.h"

namespace fake_gpu {
namespace {

constexpr size_t kPage = 4096;

struct Block {
  size_t bytes = 0;
  int gpu = kHost;
};

struct Blocks {
  std::mutex mutex;
  std::map<uintptr_t, Block> by_begin;
  std::map<int, size_t> used;
};

Blocks& blocks() {
  static auto* blocks = new Blocks;  // used until the process has ended
  return *blocks;
}

}  // namespace

void* allocate(int gpu, size_t bytes) {
  const size_t pages = bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
  const std::lock_guard lock(blocks().mutex);
  if (gpu != kHost && blocks().used[gpu] + pages > settings().memory) return nullptr;
  void* begin = ::mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  blocks().used[gpu] += pages;
  blocks().by_begin[reinterpret_cast<uintptr_t>(begin)] = {pages, gpu};
  return begin;
}

bool release(void* begin) {
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().by_begin.find(reinterpret_cast<uintptr_t>(begin));
  if (found == blocks().by_begin.end()) return false;
  blocks().used[found->second.gpu] -= found->second.bytes;
  ::munmap(begin, found->second.bytes);
  blocks().by_begin.erase(found);
  return true;
}

size_t used(int gpu) {
  const std::lock_guard lock(blocks().mutex);
  return blocks().used[gpu];
}

std::optional<int> place_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(blocks().mutex);
  auto next = blocks().by_begin.upper_bound(at);
  if (next == blocks().by_begin.begin()) return std::nullopt;
  --next;
  if (at >= next->first + next->second.bytes) return std::nullopt;
  return next->second.gpu;
}

}  // namespace fake_gpu
