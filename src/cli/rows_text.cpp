#include "cli/rows_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "text/number_text.h"

namespace dtrain::cli {
namespace {

// Most values were float32: their shortest text is that of a float32, not of the float64 that
// carries them.
std::string number(double value) {
  if (std::isnan(value)) return "nan";  // without its sign, which not every reader accepts
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? shortest(narrow) : shortest(value);
}
std::string number(int64_t value) { return shortest(value); }

std::string json_number(double value) { return std::isfinite(value) ? number(value) : "null"; }
std::string json_number(int64_t value) { return number(value); }

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

template <typename Element, typename Text>
std::string listed(const std::vector<Element>& elements, const char* separator, const Text& text) {
  std::string out;
  for (const Element& element : elements) out += (out.empty() ? "" : separator) + text(element);
  return out;
}

// A text in a list: the semicolon ends it.
std::string listed_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ';' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

struct CsvCell {
  std::string operator()(double value) const { return number(value); }
  std::string operator()(int64_t value) const { return number(value); }
  std::string operator()(const std::string& value) const { return csv_field(value); }
  template <typename Element>
  std::string operator()(const std::vector<Element>& list) const {
    return listed(list, " ", [](Element e) { return number(e); });
  }
  std::string operator()(const std::vector<std::string>& list) const {
    return csv_field(listed(list, ";", listed_text));
  }
};

struct JsonCell {
  std::string operator()(double value) const { return json_number(value); }
  std::string operator()(int64_t value) const { return json_number(value); }
  std::string operator()(const std::string& value) const { return json_text(value); }
  template <typename Element>
  std::string operator()(const std::vector<Element>& list) const {
    return "[" + listed(list, ", ", [](Element e) { return json_number(e); }) + "]";
  }
  std::string operator()(const std::vector<std::string>& list) const {
    return "[" + listed(list, ", ", json_text) + "]";
  }
};

}  // namespace

RowWriter::RowWriter(RowFormat format, std::vector<std::string> columns)
    : format_(format), columns_(std::move(columns)) {}

std::string RowWriter::header() const {
  if (format_ == RowFormat::kJsonLines) return "";
  std::string line = "input,";
  for (const std::string& column : columns_) line += csv_field(column) + ",";
  return line + "error\n";
}

std::string RowWriter::row(std::string_view input, const std::vector<Cell>& cells) const {
  DTRAIN_CHECK(cells.size() == columns_.size(), cells.size(), " cells in ", columns_.size(),
               " columns");
  if (format_ == RowFormat::kCsv) {
    std::string line = csv_field(input) + ",";
    for (const Cell& cell : cells) line += std::visit(CsvCell(), cell) + ",";
    return line + "\n";
  }
  std::string line = "{\"input\": " + json_text(input);
  for (size_t i = 0; i < cells.size(); ++i) {
    line += ", " + json_text(columns_[i]) + ": " + std::visit(JsonCell(), cells[i]);
  }
  return line + "}\n";
}

std::string RowWriter::error(std::string_view input, std::string_view what) const {
  if (format_ == RowFormat::kCsv) {
    return csv_field(input) + "," + std::string(columns_.size(), ',') + csv_field(what) + "\n";
  }
  return "{\"input\": " + json_text(input) + ", \"error\": " + json_text(what) + "}\n";
}

}  // namespace dtrain::cli
