#pragma once

// For code that only measures a duration; what waits or repeats at an interval takes a Clock
// (clock.h), so that tests can move it. Thread-safety: pure.

#include <chrono>

namespace dtrain {

// Seconds from `began` until now, on the machine's own clock.
inline double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace dtrain
