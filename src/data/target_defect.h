#pragma once

// Targets that cannot be learned from, whatever the network: read by the tasks before training, and by the loader for
// the samples that it is to leave out.

#include <cstdint>
#include <span>
#include <string>

#include "data/store.h"

namespace dtrain::data {

// What is wrong with an order of `elements` elements; "" if it is a permutation of 0 to elements - 1.
std::string order_defect(std::span<const int64_t> order, int64_t elements);

// What is wrong with the int64 target of a sample of `rows` rows, by the file's task and number of classes (0: not
// known); "" if nothing is.
std::string target_defect(const Schema&, int64_t classes, std::span<const int64_t> target, int64_t rows);

// What is wrong with float32 targets, which are to be finite and within ±limit; "" if nothing is.
std::string target_defect(std::span<const float> target, float limit);

}  // namespace dtrain::data
