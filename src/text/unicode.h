#pragma once

// Names that people see as one, though their bytes differ. Unicode writes é as one character (NFC,
// as Linux and Windows usually do) or as e and an accent (NFD, as macOS often does).
// Thread-safety: pure functions.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// `text` in NFC. Text that is not UTF-8 is returned unchanged.
std::string nfc(std::string_view text);

inline bool same_name(std::string_view a, std::string_view b) { return a == b || nfc(a) == nfc(b); }
// The index of the name in `names` that is the same one: the one of the same bytes, if there is
// any; names.size(): none.
size_t find_name(std::string_view name, std::span<const std::string> names);

// Whether two names that differ look alike in a terminal: letters of two scripts that share a
// shape, kinds of spaces and dashes, characters that take no place.
bool look_alike(std::string_view a, std::string_view b);

// "U+0063 U+0061 U+0074"
std::string code_points(std::string_view text);

// For an error about a name that is none of `known`: which of them looks like it, with the code
// points of both; "" if none does.
std::string look_alike_among(std::string_view name, std::span<const std::string> known);

}  // namespace dtrain
