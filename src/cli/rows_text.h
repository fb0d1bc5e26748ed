#pragma once

// Rows of predictions as text: CSV with the quoting of RFC 4180 (lines end in \n), or one JSON
// object per line. Numbers are the shortest decimals that give the same float32 (or float64) back.
// Pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dtrain::cli {

using Cell = std::variant<double, int64_t, std::string, std::vector<double>, std::vector<int64_t>,
                          std::vector<std::string>>;

enum class RowFormat { kCsv, kJsonLines };

class RowWriter {
 public:
  RowWriter(RowFormat format, std::vector<std::string> columns);

  // CSV: "input,<columns>,error\n". JSON lines have none.
  std::string header() const;
  // `cells`: one per column. CSV writes the numbers of a list with blanks between, its texts with
  // semicolons between (\; and \\ stand for a semicolon and a backslash in a text), and an empty
  // error. JSON writes a list as an array, a number that is not finite as null, and no error. Bytes
  // that are not UTF-8 stay as they are in CSV and become U+FFFD in JSON, which must be UTF-8.
  std::string row(std::string_view input, const std::vector<Cell>& cells) const;
  std::string error(std::string_view input, std::string_view what) const;

 private:
  RowFormat format_;
  std::vector<std::string> columns_;
};

}  // namespace dtrain::cli
