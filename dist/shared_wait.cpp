#include "dist/shared_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace dtrain::dist {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4,
              "a futex is 4 bytes");

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

Patience patience_of_caller(int ranks, int cores) {
  return ranks <= cores ? Patience{.spins = 2000, .yields = 1000}
                        : Patience{.spins = 0, .yields = 100};
}

Patience patience_of_thread(int ranks, int cores) {
  return ranks <= cores ? Patience{.spins = 100, .yields = 20} : Patience{.spins = 0, .yields = 10};
}

void Bell::wake() noexcept {
  rung_.fetch_add(1);
  futex(rung_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Bell::sleep(uint32_t seen, std::chrono::microseconds longest) noexcept {
  const timespec timeout{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(longest).count()};
  // An interrupted or expired sleep is a look at the state, as any other
  futex(rung_, FUTEX_WAIT, seen, &timeout);
}

}  // namespace dtrain::dist
