#pragma once

// Data inside an HTML page, which must not become a part of it. Pure.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dtrain::report {

// JSON as it may stand inside a <script> element: without "<", ">" and "&", which could end the
// element or begin a comment, and without U+2028 and U+2029, which older JavaScript takes for the
// end of a line. All of them are only ever inside strings of JSON, where \u003c says the same.
std::string script_json(std::string_view json);

std::string data_uri(std::string_view media_type,
                     std::span<const std::byte> bytes);  // "data:image/jpeg;base64,..."

}  // namespace dtrain::report
