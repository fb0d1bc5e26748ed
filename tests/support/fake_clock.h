#pragma once

// A Clock whose time changes only when a test advances it. sleep_for() also advances it, and
// returns immediately. Thread-safety: like Clock.

#include <atomic>
#include <chrono>

#include "core/clock.h"

namespace dtrain::testing {

class FakeClock final : public Clock {
 public:
  Steady::time_point now() const override {
    return Steady::time_point(Steady::duration(passed_.load()));
  }
  Wall::time_point wall() const override {
    return Wall::time_point(
        std::chrono::duration_cast<Wall::duration>(Steady::duration(passed_.load())));
  }
  void sleep_for(Steady::duration duration) const override { advance(duration); }
  void advance(Steady::duration duration) const { passed_ += duration.count(); }

 private:
  mutable std::atomic<Steady::rep> passed_{
      1'000'000'000'000};  // not 0, which is a default time_point
};

}  // namespace dtrain::testing
