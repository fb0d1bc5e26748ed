#include <cmath>
#include <vector>

#include "core/strings.h"
#include "data/store.h"

namespace dtrain::data {

std::vector<std::string> class_names(const Store& store) {
  const std::string text = store.attribute("class_names");
  return text.empty() ? std::vector<std::string>() : split(text, '\n');
}

std::optional<BadTarget> first_bad_target(const Store& store, float lowest, float highest) {
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    const std::vector<float> target = read_target_as<float>(store, id);
    for (size_t i = 0; i < target.size(); ++i) {
      const bool good = target[i] >= lowest && target[i] <= highest && std::isfinite(target[i]);  // false for NaN
      if (!good) return BadTarget{id, static_cast<int64_t>(i), target[i]};
    }
  }
  return std::nullopt;
}

std::optional<BadClass> first_bad_class(const Store& store, int64_t classes) {
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    const std::vector<int64_t> target = read_target_as<int64_t>(store, id);
    for (size_t i = 0; i < target.size(); ++i) {
      if (target[i] < 0 || target[i] >= classes) return BadClass{id, static_cast<int64_t>(i), target[i]};
    }
  }
  return std::nullopt;
}

}  // namespace dtrain::data
