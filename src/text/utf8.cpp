#include "text/utf8.h"

#include <algorithm>

namespace dtrain {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  if (!std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(bytes), continues))
    return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_code_point = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || no_code_point ? 0 : bytes;
}

size_t find_not_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = utf8_character(text.substr(at));
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

std::string_view utf8_beginning(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && most - end < 3 && continues(text[end])) --end;
  return text.substr(0, end);
}

std::string utf8_of(uint32_t code_point) {
  constexpr uint32_t kEnd = 0x110000;
  const int following = code_point < 0x80      ? 0
                        : code_point < 0x800   ? 1
                        : code_point < 0x10000 ? 2
                                               : 3;
  constexpr uint32_t kFirst[] = {0x00, 0xc0, 0xe0, 0xf0};
  if (code_point >= kEnd) return "\xff";
  std::string text(1, static_cast<char>(kFirst[following] | code_point >> 6 * following));
  for (int rest = following - 1; rest >= 0; --rest) {
    text += static_cast<char>(0x80 | (code_point >> 6 * rest & 0x3f));
  }
  return text;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !continues(byte); }));
}

}  // namespace dtrain
