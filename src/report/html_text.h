#pragma once

// Text of others inside an HTML page. A name may hold quotes, tags or bytes that are no UTF-8: in the page it is shown,
// never run. Pure.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dtrain::report {

// For the content of an element and for an attribute in double or single quotes. Control characters, and the invisible
// ones that change the direction of text, are shown as escapes; bytes that are not UTF-8 as well.
std::string html_text(std::string_view text);

// JSON as it may stand inside a <script> element: without "<", ">" and "&", which could end the element or begin a
// comment, and without U+2028 and U+2029, which older JavaScript takes for the end of a line. All of them are only ever
// inside strings of JSON, where \u003c says the same.
std::string script_json(std::string_view json);

std::string data_uri(std::string_view media_type, std::span<const std::byte> bytes);  // "data:image/jpeg;base64,..."

}  // namespace dtrain::report
