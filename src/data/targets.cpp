#include <algorithm>
#include <cmath>
#include <vector>

#include "core/strings.h"
#include "data/store.h"
#include "data/target_defect.h"

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

std::string order_defect(std::span<const int64_t> order, int64_t elements) {
  if (static_cast<int64_t>(order.size()) != elements) {
    return str("the order names ", order.size(), " of ", elements, " elements");
  }
  std::vector<bool> seen(static_cast<size_t>(elements));
  for (const int64_t element : order) {
    if (element < 0 || element >= elements) {
      return str("the order names element ", element, " of a set of ", elements);
    }
    if (seen[static_cast<size_t>(element)]) return str("the order names element ", element, " twice");
    seen[static_cast<size_t>(element)] = true;
  }
  return "";
}

std::string target_defect(const Schema& schema, int64_t classes, std::span<const int64_t> target, int64_t rows) {
  if (schema.task == "pointer") return order_defect(target, rows);
  if (classes == 0 || !schema.target.shape.empty()) return "";
  if (target[0] >= 0 && target[0] < classes) return "";
  return str("class ", target[0], " is not one of the ", classes, " from 0");
}

std::string target_defect(std::span<const float> target, float limit) {
  for (size_t i = 0; i < target.size(); ++i) {
    if (!(std::abs(target[i]) <= limit)) return str("target ", i, " is ", target[i]);  // false for NaN
  }
  return "";
}

}  // namespace dtrain::data
