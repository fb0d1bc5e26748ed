#pragma once

// Sets of elements with an order to be found, for the task `pointer`. The rule: by feature 0, equal ones by feature 1;
// ascending where the mean of feature 2 over the set is below one half, else descending. Features 3 to 6 say nothing.
// No element has its place by itself, and the order in which the set is given says nothing.

#include <cstdint>
#include <vector>

#include "convert/pointer_file.h"

namespace dtrain::synth {

inline constexpr int64_t kShortestSet = 3;

struct PointerSet {
  std::vector<float> features;  // n × kPointerFeatures; the last is is_visited, 0
  std::vector<int64_t> order;   // a permutation of 0 .. n - 1: the element visited first, ...
};

// n is between 3 and max_length, all alike. A function of the arguments alone. Thread-safe.
PointerSet draw_pointer_set(uint64_t seed, int64_t set, int64_t max_length);

std::vector<int64_t> pointer_order(const std::vector<float>& features);  // the rule itself

}  // namespace dtrain::synth
