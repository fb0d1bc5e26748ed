#pragma once

// Which numbers a key of the configuration may be.

#include <limits>

namespace dtrain::config {

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  // the end itself is outside
};

inline Range at_least(double low) { return {.low = low}; }
inline Range above(double low) { return {.low = low, .low_open = true}; }
// [low, high], [low, high), (low, high] and (low, high)
inline Range between(double low, double high) { return {.low = low, .high = high}; }
inline Range below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
inline Range up_to(double low, double high) { return {.low = low, .high = high, .low_open = true}; }
inline Range inside(double low, double high) { return {.low = low, .high = high, .low_open = true, .high_open = true}; }

}  // namespace dtrain::config
