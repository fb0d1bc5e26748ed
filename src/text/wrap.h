#pragma once

// Text for a terminal of 80 columns. Thread-safety: pure functions.

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

inline constexpr size_t kHelpWidth = 80;  // columns

// `text` with line breaks in the place of spaces, so that no line has more than `width` characters
// (of UTF-8). Every line but the first gets `indent` spaces before it, which `width` does not
// count. A longer word is not broken, and the text's own line breaks are kept.
std::string wrap(std::string_view text, size_t width, size_t indent = 0);

// "  NAME      TEXT" with a line break at its end. The text begins in column `column` and is
// wrapped at kHelpWidth; it begins in the line below a name that is too long.
std::string help_entry(std::string_view name, std::string_view text, size_t column);

}  // namespace dtrain
