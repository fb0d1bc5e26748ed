#pragma once

// A table of numbers with names for its rows and columns: per-class figures, a confusion matrix,
// a histogram.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

struct Table {
  std::string name;
  std::vector<std::string> columns, rows;  // names
  std::vector<std::vector<double>>
      cells;  // [rows][columns]; NaN: no such number (a class without samples)
};

// The form of metrics.jsonl and of `dtrain eval --json`: {"name", "columns", "rows", "cells"}, the
// cells row by row, null for a number that is not finite. Json is nlohmann::ordered_json, which no
// header includes.
template <typename Json>
Json table_json(const Table& table) {
  Json cells = Json::array();
  for (const std::vector<double>& row : table.cells) {
    Json numbers = Json::array();
    for (const double value : row) numbers.push_back(std::isfinite(value) ? Json(value) : Json());
    cells.push_back(std::move(numbers));
  }
  return {{"name", table.name},
          {"columns", table.columns},
          {"rows", table.rows},
          {"cells", std::move(cells)}};
}

}  // namespace dtrain
