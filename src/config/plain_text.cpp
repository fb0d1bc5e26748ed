#include "config/plain_text.h"

#include <algorithm>

#include "text/printable.h"

namespace dtrain::config {

size_t plain_character(std::string_view text) {
  if (text.starts_with("\u2028") || text.starts_with("\u2029") || text.starts_with("\uFEFF"))
    return 0;
  if (text.starts_with("\uFFFE") || text.starts_with("\uFFFF")) return 0;
  return printable_character(text);
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out = "'";
  while (!text.empty()) {
    if (out.size() > kLongest) return out + "...'";
    const size_t length = plain_character(text);
    const std::string_view first = text.substr(0, std::max<size_t>(length, 1));
    out += printable(first);
    text.remove_prefix(first.size());
  }
  return out + "'";
}

}  // namespace dtrain::config
