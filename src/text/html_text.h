#pragma once

// Text of others inside an HTML page. A name may hold quotes, tags or bytes that are no UTF-8: in
// the page it is shown, never run. Thread-safety: pure function.

#include <string>
#include <string_view>

namespace dtrain {

// For the content of an element and for an attribute in double or single quotes. Control
// characters, bytes that are not UTF-8, and marks that change the direction of text are shown as
// escapes, as by printable().
std::string html_text(std::string_view text);

}  // namespace dtrain
