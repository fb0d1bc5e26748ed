#pragma once

// Text for a terminal of 80 columns.

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

inline constexpr size_t kHelpWidth = 80;  // columns

// `text` broken at blanks so that no line has more than `width` characters (UTF-8), `indent` blanks before each line
// but the first; both count the line alone. A longer word is not broken, and the text's own line ends stay.
std::string wrap(std::string_view text, size_t width, size_t indent = 0);

// "  NAME      TEXT": the text from column `column` on, wrapped at kHelpWidth; below the name where that is too long.
// Ends in a line end.
std::string help_entry(std::string_view name, std::string_view text, size_t column);

}  // namespace dtrain
