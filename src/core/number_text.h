#pragma once

// The fewest digits that give the same number back.

#include <array>
#include <charconv>
#include <string>

namespace dtrain {

template <typename Number>
std::string shortest(Number value) {
  std::array<char, 40> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace dtrain
