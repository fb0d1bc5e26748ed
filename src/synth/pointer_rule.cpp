#include "synth/pointer_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "synth/draws.h"

namespace dtrain::synth {
namespace {

float feature(const std::vector<float>& features, int64_t element, int64_t which) {
  return features[static_cast<size_t>(element * convert::kPointerFeatures + which)];
}

double mean_of_direction(const std::vector<float>& features) {
  const int64_t count = static_cast<int64_t>(features.size()) / convert::kPointerFeatures;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += feature(features, i, 2);
  return sum / static_cast<double>(count);
}

}  // namespace

std::vector<int64_t> pointer_order(const std::vector<float>& features) {
  std::vector<int64_t> order(features.size() / convert::kPointerFeatures);
  std::iota(order.begin(), order.end(), 0);
  const bool descending = mean_of_direction(features) >= 0.5;
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const auto key = [&](int64_t i) {
      return std::pair(feature(features, i, 0), feature(features, i, 1));
    };
    return descending ? key(b) < key(a) : key(a) < key(b);
  });
  return order;
}

PointerSet draw_pointer_set(uint64_t seed, int64_t set, int64_t max_length) {
  Draws draw(seed, Aspect::kSet, set);
  const int64_t count = kShortestSet + draw.below(max_length - kShortestSet + 1);
  PointerSet result;
  result.features.resize(static_cast<size_t>(count * convert::kPointerFeatures));
  const auto at = [&](int64_t i, int64_t f) -> float& {
    return result.features[static_cast<size_t>(i * convert::kPointerFeatures + f)];
  };
  // Feature 0 takes discrete values, each used by at most two elements, so that ties are common but
  // near ties do not occur. Two elements with the same value differ by at least kApart in
  // feature 1.
  constexpr float kApart = 0.3f;
  const int64_t steps = std::max<int64_t>(12, count + count / 2);
  std::vector<std::vector<int64_t>> taken(static_cast<size_t>(steps));
  for (int64_t i = 0; i < count; ++i) {
    int64_t step = draw.below(steps);
    while (taken[static_cast<size_t>(step)].size() >= 2) step = draw.below(steps);
    at(i, 0) = static_cast<float>(step) / static_cast<float>(steps - 1);
    for (int64_t f = 1; f < convert::kPointerFeatures - 1; ++f) at(i, f) = draw.uniform();
    auto& others = taken[static_cast<size_t>(step)];
    while (!others.empty() && std::abs(at(i, 1) - at(others[0], 1)) < kApart)
      at(i, 1) = draw.uniform();
    others.push_back(i);
  }
  // Feature 2 of all elements is on the same side of one half, so that the direction is clear.
  const float lean = draw.chance(0.5f) ? 0.5f : 0.0f;
  for (int64_t i = 0; i < count; ++i) at(i, 2) = at(i, 2) * 0.5f + lean;
  result.order = pointer_order(result.features);
  return result;
}

}  // namespace dtrain::synth
