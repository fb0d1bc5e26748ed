#pragma once

// The time, for code that waits, times out or repeats at an interval: it takes a Clock, so that a
// test can replace it by one that it moves by hand (tests/support/fake_clock.h). Code that only
// measures a duration uses seconds_since(). Thread-safety: any thread may call all methods.

#include <chrono>
#include <thread>

namespace dtrain {

class Clock {
 public:
  using Steady = std::chrono::steady_clock;
  using Wall = std::chrono::system_clock;

  virtual ~Clock() = default;
  // Never goes back; for intervals and timeouts
  virtual Steady::time_point now() const { return Steady::now(); }
  // The date and time, for people and files
  virtual Wall::time_point wall() const { return Wall::now(); }
  virtual void sleep_for(Steady::duration duration) const { std::this_thread::sleep_for(duration); }
};

// The machine's own clock.
inline const Clock& real_clock() {
  static const Clock clock;
  return clock;
}

// Seconds since 1970, with fractions: the time in metrics and events.
inline double unix_seconds(const Clock& clock = real_clock()) {
  return std::chrono::duration<double>(clock.wall().time_since_epoch()).count();
}

// Seconds from `began` until now, on the machine's own clock.
inline double seconds_since(Clock::Steady::time_point began) {
  return std::chrono::duration<double>(Clock::Steady::now() - began).count();
}

inline double seconds_between(Clock::Steady::time_point begin, Clock::Steady::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace dtrain
