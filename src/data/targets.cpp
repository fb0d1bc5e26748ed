#include <cmath>
#include <vector>

#include "data/store.h"

namespace dtrain::data {

std::optional<BadTarget> first_bad_target(const Store& store, float lowest, float highest) {
  std::vector<float> target(static_cast<size_t>(store.schema().target_elements()));
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    store.read_target(id, target);
    for (size_t i = 0; i < target.size(); ++i) {
      const bool good = target[i] >= lowest && target[i] <= highest && std::isfinite(target[i]);  // false for NaN
      if (!good) return BadTarget{id, static_cast<int64_t>(i), target[i]};
    }
  }
  return std::nullopt;
}

}  // namespace dtrain::data
