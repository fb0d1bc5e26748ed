#include "text/number_text.h"

#include <algorithm>
#include <vector>

namespace dtrain {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

}  // namespace

std::string ranges(std::span<const int> numbers) {
  std::vector<int> sorted(numbers.begin(), numbers.end());
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    if (i > 0) text += ",";
    text += std::to_string(sorted[i]);
    if (end - i > 1) text += "-" + std::to_string(sorted[end - 1]);
    i = end;
  }
  return text;
}

std::string hex(uint64_t word) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, word >>= 4)
    *digit = kDigits[word & 15];
  return text;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte >> 4)];
    text += kDigits[std::to_integer<unsigned>(byte & std::byte{15})];
  }
  return text;
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t word = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
  if (code != std::errc() || end != text.data() + text.size() || text.size() > 16)
    return std::nullopt;
  return word;
}

}  // namespace dtrain
