#pragma once

// Text for people: joined values, fixed digits, byte sizes, durations, and the likely meaning of a
// mistyped name.
// (GCC 12 has no std::format, and fmt's headers conflict with the copy inside LibTorch.)
// Thread-safety: pure functions.

#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text/named_enum.h"

namespace dtrain {

template <typename Part>
const Part& printed(const Part& part) {
  return part;
}
template <NamedEnum E>
std::string_view printed(const E& value) {
  return name_of(value);
}

// What an std::ostream prints for the parts, one after the other; an enum with names (named_enum.h)
// is its name.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << printed(parts));
  return out.str();
}

std::string fixed(double value, int digits);       // 3.14159, 2 -> "3.14"
std::string scientific(double value, int digits);  // 0.001, 2 -> "1.00e-03"
std::string human_bytes(double bytes);             // 1.5 GiB
std::string human_duration(double seconds);        // 1h02m, 3m05s, 12.3s
std::string human_count(int64_t count);            // 1 234 567
std::string join(std::span<const std::string> parts, std::string_view separator);
// "a, b and 3 more": at most `most` of the parts
std::string join_first(std::span<const std::string> parts, size_t most);
std::vector<std::string> split(std::string_view text, char separator);  // empty parts are kept
std::vector<std::string> words(std::string_view text);  // between spaces, tabs and line ends
std::string_view trimmed(std::string_view text);        // without these at its ends
std::string lower_case(std::string text);               // only ASCII letters change

// "[120, 6]": the sizes of the dimensions of an array. Requires: `Sizes` is a range of integers.
template <typename Sizes>
std::string shape_text(const Sizes& sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// The candidate with the smallest edit distance to `word`, if `word` is likely to be a typo of it;
// else "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace dtrain
