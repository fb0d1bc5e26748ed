#pragma once

// How to wait for another rank without taking its core. MPI's own waits spin, and with as many
// ranks as cores a spinning rank delays the one that it waits for. A Backoff yields at first and
// then sleeps longer and longer, so that a waiting thread leaves its core to backward while a peer
// is late, yet answers at once while data flows. Thread-safety: none; one Backoff belongs to
// one wait.

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/clock.h"

namespace dtrain::dist {

class Backoff {
 public:
  explicit Backoff(const Clock& clock = real_clock()) : clock_(clock), idle_since_(clock.now()) {}

  // Something arrived or left: the next waits are short again.
  void progressed() { idle_since_ = clock_.now(); }

  // Waits a little, at most a millisecond.
  void wait() {
    const auto idle = clock_.now() - idle_since_;
    if (idle < kYielding) {
      std::this_thread::yield();
    } else {
      clock_.sleep_for(std::clamp<Clock::Steady::duration>(idle / 32, kShortest, kLongest));
    }
  }

 private:
  static constexpr auto kYielding = std::chrono::milliseconds(1);
  static constexpr auto kShortest = std::chrono::microseconds(30);
  static constexpr auto kLongest = std::chrono::milliseconds(1);
  const Clock& clock_;
  Clock::Steady::time_point idle_since_;
};

}  // namespace dtrain::dist
