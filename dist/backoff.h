#pragma once

// How to wait for MPI without starving others: its own waits spin, and with as many ranks as cores spinning ranks take
// the core from the one they wait for. Yields at first, then sleeps: the waiting thread leaves its core to backward
// while a peer is late, yet answers at once while data flows (call progressed() whenever a message has come or gone).

#include <algorithm>
#include <chrono>
#include <thread>

namespace dtrain::dist {

class Backoff {
 public:
  void progressed() { started_ = Clock::now(); }
  void wait() {
    const auto idle = Clock::now() - started_;
    if (idle < kYielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::clamp<Clock::duration>(idle / 32, kShortest, kLongest));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kYielding = std::chrono::milliseconds(1);
  static constexpr auto kShortest = std::chrono::microseconds(30);
  static constexpr auto kLongest = std::chrono::milliseconds(1);
  Clock::time_point started_ = Clock::now();
};

}  // namespace dtrain::dist
