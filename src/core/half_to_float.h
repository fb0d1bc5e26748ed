#pragma once

// IEEE 754 half precision as it is stored in files.

#include <bit>
#include <cmath>
#include <cstdint>

namespace dtrain {

// The float32 of the same value, which always exists. NaN keeps its payload.
inline float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31,
                 fraction = bits & 1023;
  if (exponent == 0) {  // zero and subnormal numbers: fraction × 2^-24
    const float size = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -size : size;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

}  // namespace dtrain
