#pragma once

// Rows of text in aligned columns, for a terminal or a log. Names from outside are shown as
// text/printable.h shows them, so that a cell cannot break its row. Thread-safety: pure function.

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace dtrain {

using TextRow = std::vector<std::string>;

enum class Align { kLeft, kRight };

// A line for `header` and one for each row, each after two spaces and without spaces at its end;
// columns are two spaces apart and as wide as their widest cell, in characters of UTF-8. `align` is
// by column; columns beyond it are aligned to the right. A row may be longer than the header. A
// cell of more than `widest` characters does not widen its column, and pushes its own row only.
std::string text_table(const TextRow& header, const std::vector<TextRow>& rows,
                       const std::vector<Align>& align = {},
                       size_t widest = std::numeric_limits<size_t>::max());

}  // namespace dtrain
