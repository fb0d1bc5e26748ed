#pragma once

// Names that others chose (of files, folders, classes) in text for people: whatever they hold, they can neither steer a
// terminal nor begin a line of their own.

#include <string>
#include <string_view>

namespace dtrain {

// `text` with escapes (\n, \x1b) for control characters and for bytes that are not UTF-8; those in `kept` stay as they
// are. Other text, of any language, does not change.
std::string printable(std::string_view text, std::string_view kept = "");

// A message that may quote such names: a line break stays only where two spaces follow it, as our own messages go on
// (what they quote can then begin no line at the left edge), and tabs stay.
std::string printable_message(std::string_view text);

}  // namespace dtrain
