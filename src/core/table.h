#pragma once

// A table of numbers with names for its rows and columns: per-class figures, a confusion matrix, a histogram.

#include <string>
#include <vector>

namespace dtrain {

struct Table {
  std::string name;
  std::vector<std::string> columns, rows;  // names
  std::vector<std::vector<double>> cells;  // [rows][columns]; NaN: no such number (a class without samples)
};

}  // namespace dtrain
