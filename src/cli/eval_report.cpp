#include "cli/eval_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"
#include "text/utf8.h"

namespace dtrain::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string right(const std::string& text, size_t width) {
  const size_t own = count_characters(text);
  return (own < width ? std::string(width - own, ' ') : "") + text;
}

std::string left(const std::string& text, size_t width) {
  const size_t own = count_characters(text);
  return text + (own < width ? std::string(width - own, ' ') : "");
}

bool is_whole(double value) { return std::abs(value) < 1e15 && value == std::floor(value); }

// The digits that a column needs: none if all its numbers are whole.
std::string cell_text(double value, bool whole_column) {
  if (std::isnan(value)) return "-";
  return whole_column ? fixed(value, 0) : fixed(value, 4);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

std::string to_text(const Table& table, size_t most_columns) {
  const std::string title = printable(table.name) + "\n";
  const bool square = table.columns == table.rows;
  if (square && table.columns.size() > most_columns) {
    return title + str("  ", table.rows.size(), " x ", table.columns.size(), ": see --json FILE\n");
  }
  TextRow header = {""};
  header.insert(header.end(), table.columns.begin(), table.columns.end());
  std::vector<TextRow> rows;
  for (const std::string& name : table.rows) rows.push_back({name});
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const bool whole = std::ranges::all_of(table.cells, [&](const std::vector<double>& row) {
      return std::isnan(row[column]) || is_whole(row[column]);
    });
    for (size_t row = 0; row < rows.size(); ++row)
      rows[row].push_back(cell_text(table.cells[row][column], whole));
  }
  return title + text_table(header, rows, {Align::kLeft});
}

std::string to_text(const EvalReport& r) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += left(name, 12) + value + "\n";
  };
  line("checkpoint", r.chosen.empty() ? r.checkpoint : str(r.checkpoint, " (", r.chosen, ")"));
  line("network", str(r.task, ", ", r.network, ", ", r.precision));
  line("data",
       str(r.data, ", ", r.stats.split, " split, ", human_count(r.stats.samples), " samples"));
  if (!r.protocol.empty()) line("protocol", r.protocol);
  for (const std::string& warning : r.warnings) line("note", warning);
  size_t width = 12;
  for (const auto& [name, value] : r.stats.metrics)
    width = std::max(width, count_characters(name) + 1);
  for (const auto& [name, value] : r.stats.metrics)
    text += left(name, width) + fixed(value, 4) + "\n";
  line("speed", fixed(static_cast<double>(r.stats.samples) / r.stats.seconds, 1) + " samples/s");
  for (const Table& table : r.stats.tables) text += "\n" + to_text(table);
  if (!r.worst.empty()) {
    text += str("\nthe ", r.worst.size(), r.worst.size() == 1 ? " worst sample" : " worst samples",
                " (error, sample, source)\n");
    for (const EvalReport::Worst& sample : r.worst) {
      text += str("  ", right(fixed(sample.error, 4), 10), "  ", left(str("#", sample.id), 8), "  ",
                  printable(sample.source), "\n");
    }
  }
  return printable(text, "\n");
}

std::string to_json(const EvalReport& r) {
  Json json;
  json["checkpoint"] = r.checkpoint;
  if (!r.chosen.empty()) json["chosen"] = r.chosen;
  json["task"] = r.task;
  json["network"] = r.network;
  json["precision"] = r.precision;
  json["data"] = r.data;
  json["split"] = r.stats.split;
  if (!r.protocol.empty()) json["protocol"] = r.protocol;
  if (!r.warnings.empty()) json["notes"] = r.warnings;
  json["samples"] = r.stats.samples;
  json["seconds"] = r.stats.seconds;
  json["metrics"] = Json::object();
  for (const auto& [name, value] : r.stats.metrics) json["metrics"][name] = number(value);
  json["tables"] = Json::array();
  for (const Table& table : r.stats.tables) json["tables"].push_back(table_json<Json>(table));
  json["worst"] = Json::array();
  for (const EvalReport::Worst& sample : r.worst) {
    json["worst"].push_back(
        {{"id", sample.id}, {"error", number(sample.error)}, {"source", sample.source}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
