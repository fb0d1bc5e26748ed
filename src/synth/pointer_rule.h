#pragma once

// Generated sets whose elements have a known order, for the task `pointer`. The rule: sort by
// feature 0, then by feature 1; ascending if the mean of feature 2 over the set is below one half,
// otherwise descending. Features 3 to 6 are noise. An element's place depends on the other
// elements, and the order in which the set is given is random.

#include <cstdint>
#include <vector>

#include "convert/pointer_file.h"

namespace dtrain::synth {

inline constexpr int64_t kShortestSet = 3;

struct PointerSet {
  std::vector<float> features;  // n × kPointerFeatures; the last feature is is_visited, 0
  std::vector<int64_t> order;   // a permutation of 0 .. n - 1: the element visited first, ...
};

// n is uniform between kShortestSet and max_length. A function of the arguments alone.
// Thread-safety: may be called from any thread.
PointerSet draw_pointer_set(uint64_t seed, int64_t set, int64_t max_length);

std::vector<int64_t> pointer_order(const std::vector<float>& features);  // the rule itself

}  // namespace dtrain::synth
