#pragma once

// Is every value a number? Vector code: the check costs less than the copy of the values.

#include <cstdint>
#include <span>

namespace dtrain::data {

bool all_finite(std::span<const float>);           // no NaN, no infinity
int64_t first_not_finite(std::span<const float>);  // its index; -1 if all are finite

}  // namespace dtrain::data
