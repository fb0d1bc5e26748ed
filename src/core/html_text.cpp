#include "core/html_text.h"

#include <array>

#include "core/printable.h"

namespace dtrain {
namespace {

// U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 reorder what is shown beside them.
bool reorders(std::string_view character) {
  constexpr std::array<std::string_view, 12> kMarks = {"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c",
                                                       "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  for (const std::string_view mark : kMarks) {
    if (mark == character) return true;
  }
  return false;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  const std::string safe = printable(text);
  std::string out;
  for (std::string_view rest = safe; !rest.empty();) {
    const std::string_view character = rest.substr(0, printable_character(rest));
    const std::string_view escaped = character.size() == 1 ? entity(character[0]) : "";
    if (reorders(character)) {
      out += "\ufffd";
    } else {
      out += escaped.empty() ? character : escaped;
    }
    rest.remove_prefix(character.size());
  }
  return out;
}

}  // namespace dtrain
