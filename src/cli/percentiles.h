#pragma once

#include <vector>

namespace dtrain::cli {

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

// By nearest rank: the smallest value that at least so many per cent are not above. Requires values.
Percentiles percentiles(std::vector<double> values);

}  // namespace dtrain::cli
