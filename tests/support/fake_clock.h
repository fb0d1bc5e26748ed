#pragma once

// A Clock whose time changes only when a test advances it. sleep_for() also advances it, and
// returns immediately. It counts its reads, so that a test can wait for a thread that looks at it
// now and then. Thread-safety: like Clock.

#include <atomic>
#include <chrono>

#include "core/clock.h"

namespace dtrain::testing {

class FakeClock final : public Clock {
 public:
  Steady::time_point now() const override {
    ++reads_;
    reads_.notify_all();
    return Steady::time_point(Steady::duration(passed_.load()));
  }
  Wall::time_point wall() const override {
    return Wall::time_point(
        std::chrono::duration_cast<Wall::duration>(Steady::duration(passed_.load())));
  }
  void sleep_for(Steady::duration duration) const override { advance(duration); }
  void advance(Steady::duration duration) const { passed_ += duration.count(); }
  // Waits until now() has been called this many times more
  void wait_for_reads(int more) const {
    const int last = reads_ + more;
    for (int seen = reads_; seen < last; seen = reads_) reads_.wait(seen);
  }

 private:
  mutable std::atomic<Steady::rep> passed_{
      1'000'000'000'000};  // not 0, which is a default time_point
  mutable std::atomic<int> reads_{0};
};

}  // namespace dtrain::testing
