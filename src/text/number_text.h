#pragma once

// Numbers as text, exactly: what shortest() and hex() write, parse_number() and parse_hex() read
// back to the same bits.

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// The fewest decimal digits that give the same number back.
template <typename Number>
std::string shortest(Number value) {
  std::array<char, 40> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// The decimal number that the whole of `text` is: no space, no '+', no trailing characters, in the
// range of Number. std::nullopt for any other text. As a double, "inf" and "nan" are numbers too.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string ranges(std::span<const int> numbers);  // 5 0 1 2 -> "0-2,5"

std::string hex(uint64_t word);                            // 16 digits, lower case
std::string hex(std::span<const std::byte> bytes);         // two digits per byte
std::optional<uint64_t> parse_hex(std::string_view text);  // 1 to 16 digits and nothing else

}  // namespace dtrain
