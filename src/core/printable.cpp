#include "core/printable.h"

#include <cstddef>

namespace dtrain {
namespace {

bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// The bytes of the UTF-8 character that `text` begins with; 0 if there is none, or one that only steers: U+0080 to
// U+009F, of which some terminals take U+009B for the beginning of an escape sequence.
size_t shown_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!continues(byte(i))) return 0;
  }
  const bool too_long = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  const bool steers = first == 0xc2 && byte(1) < 0xa0;
  return too_long || no_character || steers ? 0 : bytes;
}

std::string escape(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    size_t bytes = shown_character(text);
    if (bytes == 0 && kept.find(text[0]) != std::string_view::npos) bytes = 1;
    if (bytes == 0)
      out += escape(text[0]);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

std::string printable_message(std::string_view text) {
  std::string out;
  while (true) {
    const size_t end = text.find('\n');
    out += printable(text.substr(0, end), "\t");
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
    out += text.starts_with("  ") ? "\n" : "\\n";
  }
}

}  // namespace dtrain
