#include "text/html_text.h"

#include "text/printable.h"

namespace dtrain {
namespace {

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
    out += escaped.empty() ? character : escaped;
    rest.remove_prefix(character.size());
  }
  return out;
}

}  // namespace dtrain
