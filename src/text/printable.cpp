#include "text/printable.h"

#include <utility>

#include "text/number_text.h"
#include "text/utf8.h"

namespace dtrain {
namespace {

// The controls of the direction of text (Unicode's property Bidi_Control) and the separators of
// lines and paragraphs: after one of them, a terminal may show the rest of a line in another order.
// Their numbers as an escape; "": another character.
std::string escape_of_direction(std::string_view character) {
  if (character == "\u061c") return "\\u061c";
  if (character.size() != 3 || !character.starts_with("\xe2")) return "";
  const auto second = static_cast<unsigned char>(character[1]),
             third = static_cast<unsigned char>(character[2]);
  const uint32_t code = 0x2000 + (second & 0x3fU) * 64 + (third & 0x3fU);
  const bool is_mark = code == 0x200e || code == 0x200f;
  const bool is_separator_or_embedding = code >= 0x2028 && code <= 0x202e;
  const bool is_isolate = code >= 0x2066 && code <= 0x2069;
  return is_mark || is_separator_or_embedding || is_isolate ? "\\u" + hex(uint64_t{code}).substr(12)
                                                            : "";
}

std::string escape(char c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  return "\\x" + hex(std::as_bytes(std::span(&c, 1)));
}

std::string_view entity(char c) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  for (const auto& [character, text] : kEntities) {
    if (character == c) return text;
  }
  return "";
}

}  // namespace

size_t printable_character(std::string_view text) {
  const size_t bytes = utf8_character(text);
  if (bytes == 0) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  // U+0080 to U+009F are control characters too: some terminals take U+009B for the start of an
  // escape sequence.
  const bool control =
      first < ' ' || first == 0x7f || (first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
  return control ? 0 : bytes;
}

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    size_t bytes = printable_character(text);
    if (bytes == 0 && kept.find(text[0]) != std::string_view::npos) bytes = 1;
    if (bytes == 0) {
      out += escape(text[0]);
      bytes = 1;
    } else if (const std::string direction = escape_of_direction(text.substr(0, bytes));
               !direction.empty()) {
      out += direction;
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
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

std::string html_text(std::string_view text) {
  const std::string safe = printable(text);
  std::string out;
  for (std::string_view rest = safe; !rest.empty();) {
    const std::string_view character = rest.substr(0, printable_character(rest));
    const std::string_view escaped = character.size() == 1 ? entity(character[0]) : "";
    out += escaped.empty() ? character : escaped;
    rest.remove_prefix(character.size());
  }
  return out;
}

}  // namespace dtrain
