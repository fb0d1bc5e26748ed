#include "cli/percentiles.h"

#include <algorithm>
#include <cmath>

namespace dtrain::cli {

Percentiles percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<size_t>(std::max(1.0, rank)) - 1];
  };
  return {at(0.5), at(0.9), at(0.99)};
}

}  // namespace dtrain::cli
