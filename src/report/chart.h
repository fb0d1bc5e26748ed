#pragma once

// Charts as SVG text, for the page of a report and for a file of its own. They have classes instead
// of colors: the style of the page gives them those of the reader's light or dark theme, and
// standalone_svg() adds a light one. All names are escaped. Pure.

#include <string>
#include <vector>

#include "core/table.h"

namespace dtrain::report {

struct Frame {
  double width = 360, height = 190;  // CSS pixels at the natural size; the page scales it
};

struct Series {
  std::string name;  // shown in the legend, with the last value
  // Equal numbers of values, x ascending; a point that is not finite leaves a gap
  std::vector<double> x, y;
  bool dashed = false;
  size_t color = 0;  // 0 to 5
};

struct LineChart {
  std::string title, x_label;
  std::vector<Series> series;
};

// A logarithmic axis where all values are positive and some a hundred times larger than others.
std::string line_chart(const LineChart&, const Frame& = {});

// Layers on top of each other over x; `names` and `layers` are by part, layers[i] has a value for
// each x.
struct AreaChart {
  std::string title, x_label;
  std::vector<double> x;
  std::vector<std::string> names;
  std::vector<std::vector<double>> layers;
};
std::string area_chart(const AreaChart&, const Frame& = {});

// Bars beside each other: a group for each column of the table, a bar in it for each row.
std::string bar_chart(const Table&, const Frame& = {});

// A square table as colored cells, each row relative to its sum; with numbers up to 12 columns.
std::string heat_map(const Table&);

// One horizontal bar, divided into shares (which add up to at most 1) of the part colors.
std::string share_bar(const std::vector<double>& shares, const std::vector<std::string>& names);

// Charts below each other as a file of its own.
std::string standalone_svg(const std::string& title, const std::vector<LineChart>& charts);

// Four to eight round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high].
std::vector<double> round_ticks(double low, double high);

}  // namespace dtrain::report
