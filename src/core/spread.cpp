#include "core/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtrain {

Spread spread_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return {kNone, kNone, kNone, 0};
  }
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back(), static_cast<int64_t>(values.size())};
}

double median_of(std::vector<double> values) { return spread_of(std::move(values)).median; }

}  // namespace dtrain
