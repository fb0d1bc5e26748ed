#include "text/text_table.h"

#include <algorithm>

#include "text/printable.h"
#include "text/utf8.h"

namespace dtrain {

std::string text_table(const TextRow& header, const std::vector<TextRow>& rows,
                       const std::vector<Align>& align, size_t widest) {
  std::vector<TextRow> lines = {header};
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<size_t> widths(header.size());
  for (TextRow& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t column = 0; column < line.size(); ++column) {
      line[column] = printable(line[column]);
      const size_t width = count_characters(line[column]);
      if (width <= widest) widths[column] = std::max(widths[column], width);
    }
  }
  std::string text;
  for (const TextRow& line : lines) {
    std::string row;
    for (size_t column = 0; column < line.size(); ++column) {
      const size_t width = count_characters(line[column]);
      const std::string padding(std::max(widths[column], width) - width, ' ');
      const bool left = column < align.size() && align[column] == Align::kLeft;
      row += "  " + (left ? line[column] + padding : padding + line[column]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace dtrain
