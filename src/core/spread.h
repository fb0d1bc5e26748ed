#pragma once

// A measurement that was repeated: its median, and how far apart the repetitions lie. A machine is
// never quiet, so that a mean, or one value alone, says little. Thread-safety: pure functions.

#include <cstdint>
#include <vector>

namespace dtrain {

struct Spread {
  double median = 0, low = 0, high = 0;  // the smallest and the largest value; NaN: no value
  int64_t count = 0;
  // The range as a share of the median: 0.1 for values within 10 % of each other
  double share() const { return (high - low) / median; }
};

// The median of an even number of values is the mean of the two in the middle. Leaves NaN out.
Spread spread_of(std::vector<double> values);

double median_of(std::vector<double> values);

}  // namespace dtrain
