#pragma once

// Names that others chose (of files, folders, classes) in text for people: such a name can hold any
// bytes, but must not control a terminal or start a line that looks like one of ours.
// Thread-safety: pure functions.

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

// The bytes of the UTF-8 character that `text` begins with; 0 if it is a control character, or no
// character at all.
size_t printable_character(std::string_view text);

// `text` with escapes (\n, \x1b) for control characters and for bytes that are not UTF-8, except
// those in `kept`. All other text, in any language, stays as it is.
std::string printable(std::string_view text, std::string_view kept = "");

// For a whole message that quotes such names. A line break is kept only where two spaces follow it,
// which is how our own messages continue, so that a quoted name cannot start a line at the left
// edge. Tabs are kept.
std::string printable_message(std::string_view text);

// For the content of an element of an HTML page and for an attribute in double or single quotes:
// as printable(), with entities for what HTML reads as its own, so that it is shown and never run.
std::string html_text(std::string_view text);

}  // namespace dtrain
