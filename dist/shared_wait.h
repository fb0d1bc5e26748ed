#pragma once

// How the ranks of one host wait for each other's stores to shared memory. A waiter spins, then
// yields its core, then sleeps in the kernel (futex) until the owner of the bell rings. Each step
// costs more latency and less of the cores: with more ranks than cores a spinning rank delays the
// very rank that it waits for, so there no rank spins. (Backoff serves the same purpose for MPI,
// where no bell rings and a waiter has to poll.)
//
// Thread-safety: all methods may be called from any thread of any process that maps the bell.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace dtrain::dist {

struct Patience {
  int spins = 0;   // before a waiter yields
  int yields = 0;  // before it sleeps
};

// For a thread that has nothing else to do, and one that waits beside threads that compute. Pure.
Patience patience_of_caller(int ranks, int cores);
Patience patience_of_thread(int ranks, int cores);

// Lies in shared memory, and is all zeros at first.
class Bell {
 public:
  // For the rank that has just made a store (release) that others may wait for. It may miss a rank
  // that is just about to sleep and does not see the store yet. A fence between the two would
  // prevent that, and every small operation would wait for it; instead, the first sleep of a wait
  // is short.
  void ring() noexcept {
    if (waiters_.load(std::memory_order_relaxed) != 0) wake();
  }
  void wake() noexcept;  // every sleeper, whether or not there is one

  // Returns when reached() is true, which a store before ring() makes it. While it is not, stop()
  // is called from time to time, at least once per `kInterval`; what it throws ends the wait.
  template <typename Reached, typename Stop>
  void wait_until(const Patience& patience, Reached reached, Stop stop) {
    for (int i = 0; i < patience.spins; ++i) {
      if (reached()) return;
      __builtin_ia32_pause();
    }
    for (int i = 0; i < patience.yields; ++i) {
      if (reached()) return;
      std::this_thread::yield();
    }
    const Sleeper sleeper(waiters_);
    for (auto longest = kFirstSleep; true; longest = kInterval) {
      const uint32_t seen = rung_.load();
      if (reached()) return;
      stop();
      sleep(seen, longest);
    }
  }

  static constexpr std::chrono::microseconds kInterval{50'000};

 private:
  // Counts the calling rank among those that ring() has to wake.
  class Sleeper {
   public:
    explicit Sleeper(std::atomic<uint32_t>& count) : count_(count) { count_.fetch_add(1); }
    ~Sleeper() { count_.fetch_sub(1); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    std::atomic<uint32_t>& count_;
  };

  static constexpr std::chrono::microseconds kFirstSleep{200};

  // Until the bell rings; at most so long; not at all if it has rung since.
  void sleep(uint32_t seen, std::chrono::microseconds longest) noexcept;

  std::atomic<uint32_t> rung_, waiters_;
};

}  // namespace dtrain::dist
