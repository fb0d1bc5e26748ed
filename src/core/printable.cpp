#include "core/printable.h"

#include "core/number_text.h"
#include "core/utf8.h"

namespace dtrain {
namespace {

std::string escape(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return "\\x" + hex(std::as_bytes(std::span(&c, 1)));
  }
}

}  // namespace

size_t printable_character(std::string_view text) {
  const size_t bytes = utf8_character(text);
  if (bytes == 0) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  // U+0080 to U+009F are control characters too: some terminals take U+009B for the start of an escape sequence.
  const bool control = first < ' ' || first == 0x7f || (first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
  return control ? 0 : bytes;
}

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    size_t bytes = printable_character(text);
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
