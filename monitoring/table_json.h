#pragma once

// A table in the JSON of metrics.jsonl and of `dtrain eval --json`.

#include <cmath>
#include <utility>
#include <vector>

#include "core/table.h"

namespace dtrain::monitoring {

// {"name", "columns", "rows", "cells"}, the cells row by row; one that is not finite is null. Json: nlohmann's type,
// which no header includes.
template <typename Json>
Json table_json(const Table& table) {
  Json cells = Json::array();
  for (const std::vector<double>& row : table.cells) {
    Json numbers = Json::array();
    for (const double value : row) numbers.push_back(std::isfinite(value) ? Json(value) : Json());
    cells.push_back(std::move(numbers));
  }
  return {{"name", table.name}, {"columns", table.columns}, {"rows", table.rows}, {"cells", std::move(cells)}};
}

}  // namespace dtrain::monitoring
