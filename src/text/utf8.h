#pragma once

// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain {

// The bytes of the character that `text` begins with; 0 if it begins with none, or is empty.
size_t utf8_character(std::string_view text);

// The first byte that belongs to no character; npos if all do
size_t find_not_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) { return find_not_utf8(text) == std::string_view::npos; }

// The beginning of `text`, of at most `most` bytes, without a part of a character at its end.
std::string_view utf8_beginning(std::string_view text, size_t most);

// A character as UTF-8. A number that is no character gives bytes that are not UTF-8.
std::string utf8_of(uint32_t code_point);

size_t count_characters(std::string_view text);  // `text` is UTF-8

}  // namespace dtrain
