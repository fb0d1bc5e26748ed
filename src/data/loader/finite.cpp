#include "data/loader/finite.h"

#include <bit>
#include <cmath>

#include "core/host_device.h"

namespace dtrain::data {

// An exponent of all ones. Integer compares without an early way out, so that the compiler makes vector code.
DTRAIN_ROW_LOOP bool all_finite(std::span<const float> values) {
  const float* value = values.data();
  const auto count = static_cast<int64_t>(values.size());
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto exponent = std::bit_cast<uint32_t>(value[i]) & 0x7f800000u;
    bad |= exponent == 0x7f800000u ? ~0u : 0u;
  }
  return bad == 0;
}

int64_t first_not_finite(std::span<const float> values) {
  if (all_finite(values)) return -1;
  int64_t i = 0;
  while (std::isfinite(values[static_cast<size_t>(i)])) ++i;
  return i;
}

}  // namespace dtrain::data
