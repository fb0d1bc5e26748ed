#pragma once

// Text as a configuration and a message about one may hold it: what YAML takes as it is, and
// anything that was given where a message names it. Pure.

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain::config {

// The number of bytes of the character that `text` begins with; 0 for what YAML does not allow in
// plain text: anything that printable_character() of text refuses, line separators, byte order
// marks and the two non-characters.
size_t plain_character(std::string_view text);

// `text` in quotes for a message, whatever bytes it has: control characters are escaped, and long
// texts are cut.
std::string in_quotes(std::string_view text);

}  // namespace dtrain::config
