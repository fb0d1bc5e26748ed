#include "text/wrap.h"

#include <utility>

#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain {

std::string wrap(std::string_view text, size_t width, size_t indent) {
  const std::string next_line = "\n" + std::string(indent, ' ');
  std::string out;
  bool first = true;
  for (const std::string& line : split(text, '\n')) {
    if (!std::exchange(first, false)) out += next_line;
    size_t used = 0;
    for (const std::string& word : split(line, ' ')) {
      const size_t size = count_characters(word);
      if (used > 0 && used + 1 + size > width) {
        out += next_line;
        used = 0;
      }
      out += (used > 0 ? " " : "") + word;
      used += size + (used > 0 ? 1 : 0);
    }
  }
  return out;
}

std::string help_entry(std::string_view name, std::string_view text, size_t column) {
  std::string out = "  " + std::string(name);
  const size_t used = count_characters(out);
  out += used < column ? std::string(column - used, ' ') : "\n" + std::string(column, ' ');
  return out + wrap(text, kHelpWidth - column, column) + "\n";
}

}  // namespace dtrain
