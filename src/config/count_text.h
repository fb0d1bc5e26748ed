#pragma once

// Numbers of values that have units (interval.h, warm_up.h): decimal, without sign and exponent, so
// that people and other programs read them alike. Pure.

#include <charconv>
#include <string>
#include <string_view>

#include "text/number_text.h"

namespace dtrain::config {

// The whole of `text` as a decimal number above 0, at most `most`, without sign, exponent or
// leading zeros.
template <typename Number>
bool parse_count(std::string_view text, double most, Number& value) {
  const bool zeros = text.size() > 1 && text[0] == '0' && text[1] != '.';
  if (text.empty() || text[0] < '0' || text[0] > '9' || zeros ||
      text.find_first_of("eE") != std::string_view::npos) {
    return false;
  }
  value = parse_number<Number>(text).value_or(0);
  return value > 0 && static_cast<double>(value) <= most;
}

// Without an exponent; the smallest number takes about 330 digits.
inline std::string all_digits(double value) {
  char digits[512];
  return {digits,
          std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed).ptr};
}

}  // namespace dtrain::config
