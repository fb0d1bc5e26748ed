#pragma once

// A line plot as SVG text, for runs/NAME/loss.svg: panels above each other over one x axis, each with its own y scale.
// Any browser shows it.

#include <string>
#include <vector>

namespace dtrain::monitoring {

struct Series {
  std::string name;          // shown in the legend
  std::vector<double> x, y;  // of equal length, x ascending; a point that is not finite leaves a gap
};

struct Panel {
  std::string y_label;
  std::vector<Series> series;
};

std::string plot_svg(const std::string& title, const std::string& x_label, const std::vector<Panel>& panels);

// Four to eight round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high].
std::vector<double> round_ticks(double low, double high);

}  // namespace dtrain::monitoring
