#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "report/page_parts.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain::report {
namespace {

constexpr double kLeft = 50, kRight = 10, kTitle = 20, kLegendRow = 15, kBottom = 34;
constexpr double kCharacter = 6.2;  // the mean width of one in a legend
constexpr size_t kMostPoints = 300, kMostLayerPoints = 150, kMostDots = 60, kLongestName = 26;
constexpr size_t kColors = 6;

struct Range {
  double low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    if (!std::isfinite(value) || std::abs(value) > 1e100) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::abs(value) < 1e-12 ? 0.0 : value);
  return text;
}

std::string shortened(const std::string& name, size_t most = kLongestName) {
  return cut_to(name, most, "…");
}

std::string text(double x, double y, const char* css, const char* anchor,
                 const std::string& content) {
  return str("<text x=\"", fixed(x, 1), "\" y=\"", fixed(y, 1), "\" class=\"", css,
             "\" text-anchor=\"", anchor, "\">", html_text(content), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, const char* css) {
  return str("<line x1=\"", fixed(x1, 1), "\" y1=\"", fixed(y1, 1), "\" x2=\"", fixed(x2, 1),
             "\" y2=\"", fixed(y2, 1), "\" class=\"", css, "\"/>\n");
}

std::string rect(double x, double y, double width, double height, const std::string& css,
                 const std::string& tip = "") {
  const std::string head =
      str("<rect x=\"", fixed(x, 2), "\" y=\"", fixed(y, 2), "\" width=\"", fixed(width, 2),
          "\" height=\"", fixed(height, 2), "\" class=\"", css, "\"");
  return tip.empty() ? head + "/>\n" : head + "><title>" + html_text(tip) + "</title></rect>\n";
}

std::string opened(double width, double height, const std::string& label) {
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 ",
             fixed(width, 0), " ", fixed(height, 0), "\" role=\"img\" aria-label=\"",
             html_text(label), "\">\n");
}

// One axis: values to pixels, and where its ticks are.
class Axis {
 public:
  Axis(Range values, double begin, double end, bool may_be_log, bool widen)
      : begin_(begin), end_(end) {
    if (values.empty()) values = {0, 1};
    log_ = may_be_log && values.low > 0 && values.high / values.low >= 100;
    if (log_) {
      low_ = std::floor(std::log10(values.low));
      high_ = std::max(low_ + 1, std::ceil(std::log10(values.high)));
      const double step = std::max(1.0, std::ceil((high_ - low_) / 5));
      for (double power = low_; power <= high_; power += step)
        ticks_.push_back(std::pow(10.0, power));
      return;
    }
    ticks_ = round_ticks(values.low, values.high);
    low_ = widen ? ticks_.front() : values.low;
    high_ = widen ? ticks_.back() : values.high;
    std::erase_if(ticks_, [&](double tick) {
      const double slack = 1e-9 * (high_ - low_);
      return tick < low_ - slack || tick > high_ + slack;
    });
  }
  double operator()(double value) const {
    const double at = log_ ? std::log10(std::max(value, 1e-300)) : value;
    const double share = high_ > low_ ? (at - low_) / (high_ - low_) : 0.5;
    return begin_ + std::clamp(share, -0.02, 1.02) * (end_ - begin_);
  }
  const std::vector<double>& ticks() const { return ticks_; }
  bool is_log() const { return log_; }

 private:
  double begin_, end_, low_ = 0, high_ = 1;
  bool log_ = false;
  std::vector<double> ticks_;
};

struct LegendEntry {
  std::string name, mark;  // mark: the class of its line or square
};

// Rows of entries as wide as the chart allows; `height` grows by that of the rows.
std::string legend(const std::vector<LegendEntry>& entries, double width, double* height) {
  std::string svg;
  double x = 2, y = *height;
  for (const LegendEntry& entry : entries) {
    const double needs = 16 + kCharacter * static_cast<double>(count_characters(entry.name)) + 8;
    if (x > 2 && x + needs > width) {
      x = 2;
      y += kLegendRow;
    }
    const bool square = entry.mark.starts_with("p");
    svg += square ? rect(x, y + 2, 10, 9, entry.mark)
                  : line(x, y + 7, x + 12, y + 7, entry.mark.c_str());
    svg += text(x + 15, y + 11, "legend", "start", entry.name);
    x += needs;
  }
  *height = entries.empty() ? y : y + kLegendRow;
  return svg;
}

// Where the curves go: below the title and the legend.
struct Area {
  double left, right, top, bottom;
};

std::string axes(const Axis& x, const Axis& y, const Area& area, const std::string& x_label) {
  std::string svg;
  for (const double tick : y.ticks()) {
    svg += line(area.left, y(tick), area.right, y(tick), "grid");
    svg += text(area.left - 5, y(tick) + 4, "tick", "end", number(tick));
  }
  for (const double& tick : x.ticks()) {
    const double at = x(tick);
    if (at > area.right - 12 && &tick != &x.ticks().back())
      continue;  // would meet the label of the last one
    svg += text(std::min(at, area.right - 8), area.bottom + 14, "tick", "middle", number(tick));
  }
  svg += line(area.left, area.bottom, area.right, area.bottom, "axis");
  return svg + text((area.left + area.right) / 2, area.bottom + 28, "tick", "middle", x_label);
}

// Draws at most kMostPoints points. Of more, each point is the mean of a group.
std::string curve(const Series& s, const Axis& to_x, const Axis& to_y) {
  const size_t count = std::min(s.x.size(), s.y.size());
  const size_t group = std::max<size_t>(1, (count + kMostPoints - 1) / kMostPoints);
  const std::string css = str("c", s.color % kColors);
  std::string path, dots;
  size_t drawn = 0;
  bool pen_down = false;
  for (size_t begin = 0; begin < count; begin += group) {
    const size_t end = std::min(begin + group, count);
    double x = 0, y = 0;
    for (size_t i = begin; i < end; ++i) {
      x += s.x[i] / static_cast<double>(end - begin);
      y += s.y[i] / static_cast<double>(end - begin);
    }
    if (!std::isfinite(x) || !std::isfinite(y) || (to_y.is_log() && y <= 0)) {
      pen_down = false;
      continue;
    }
    path += str(pen_down ? "L" : "M", fixed(to_x(x), 1), " ", fixed(to_y(y), 1));
    if (count <= kMostDots) {
      dots += str("<circle cx=\"", fixed(to_x(x), 1), "\" cy=\"", fixed(to_y(y), 1),
                  "\" r=\"2\" class=\"f", css, "\"><title>", number(x), ": ", number(y),
                  "</title></circle>\n");
    }
    pen_down = true;
    ++drawn;
  }
  if (drawn == 0) return "";
  return str("<path d=\"", path, "\" class=\"", css, s.dashed ? " dashed" : "", "\"/>\n", dots);
}

double last_finite(const std::vector<double>& values) {
  const auto found =
      std::find_if(values.rbegin(), values.rend(), [](double v) { return std::isfinite(v); });
  return found == values.rend() ? std::numeric_limits<double>::quiet_NaN() : *found;
}

std::string with_last_value(const Series& s) {
  const double last = last_finite(s.y);
  return std::isnan(last) ? shortened(s.name) : str(shortened(s.name), ": ", number(last));
}

Range range_of_x(const std::vector<Series>& all) {
  Range range;
  for (const Series& s : all) {
    for (const double x : s.x) range.include(x);
  }
  return range;
}

constexpr const char* kLightStyle =
    "text{font-family:system-ui,'DejaVu "
    "Sans',sans-serif;font-size:11px;fill:#444}.title{font-size:13px;font-weight:600;"
    "fill:#222}.grid{stroke:#e6e6e6}.axis{stroke:#999}path{fill:none;stroke-width:1.6;stroke-"
    "linejoin:round}"
    ".dashed{stroke-dasharray:5 "
    "3}.c0{stroke:#0072b2}.c1{stroke:#d55e00}.c2{stroke:#009e73}.c3{stroke:#cc79a7}"
    ".c4{stroke:#b07c00}.c5{stroke:#56b4e9}.fc0{fill:#0072b2}.fc1{fill:#d55e00}.fc2{fill:#009e73}."
    "fc3{fill:#cc79a7}"
    ".fc4{fill:#b07c00}.fc5{fill:#56b4e9}";

}  // namespace

std::vector<double> round_ticks(double low, double high) {
  if (!(high > low)) {
    const double pad = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= pad;
    high += pad;
  }
  const double rough = (high - low) / 5, power = std::pow(10.0, std::floor(std::log10(rough))),
               share = rough / power;
  const double step = power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  // Values that differ by no more than a double can tell have no round numbers between them.
  if (!(last - first <= 20) || std::abs(first) > 1e12) return {low, high};
  for (double i = first; i <= last; i += 1) ticks.push_back(i * step);
  return ticks;
}

std::string line_chart(const LineChart& chart, const Frame& frame) {
  Range ys;
  std::vector<LegendEntry> entries;
  for (const Series& s : chart.series) {
    for (const double y : s.y) ys.include(y);
    entries.push_back({with_last_value(s), str("c", s.color % kColors, s.dashed ? " dashed" : "")});
  }
  double top = kTitle;
  const std::string names = legend(entries, frame.width, &top);
  const double height = frame.height + top - kTitle;
  const Area area{kLeft, frame.width - kRight, top + 8, height - kBottom};
  const Axis x(range_of_x(chart.series), area.left, area.right, /*may_be_log=*/false,
               /*widen=*/false);
  const Axis y(ys, area.bottom, area.top, /*may_be_log=*/true, /*widen=*/true);
  std::string svg = opened(frame.width, height, chart.title);
  svg += text(2, 13, "title", "start", chart.title + (y.is_log() ? " (logarithmic)" : ""));
  svg += names + axes(x, y, area, chart.x_label);
  for (const Series& s : chart.series) svg += curve(s, x, y);
  return svg + "</svg>\n";
}

std::string area_chart(const AreaChart& chart, const Frame& frame) {
  // Groups of neighbors, as in a curve.
  const size_t count = chart.x.size(),
               group = std::max<size_t>(1, (count + kMostLayerPoints - 1) / kMostLayerPoints);
  std::vector<double> xs;
  // The sum of the layers below each layer
  std::vector<std::vector<double>> tops(chart.layers.size() + 1);
  Range x_range, y_range;
  y_range.include(0);
  for (size_t begin = 0; begin < count; begin += group) {
    const size_t end = std::min(begin + group, count);
    xs.push_back(chart.x[end - 1]);
    x_range.include(xs.back());
    double sum = 0;
    tops[0].push_back(0);
    for (size_t layer = 0; layer < chart.layers.size(); ++layer) {
      for (size_t i = begin; i < end; ++i) {
        const double value = chart.layers[layer][i] / static_cast<double>(end - begin);
        if (std::isfinite(value) && value > 0 && value < 1e100) sum += value;
      }
      tops[layer + 1].push_back(sum);
    }
    y_range.include(sum);
  }
  std::vector<LegendEntry> entries;
  for (size_t layer = 0; layer < chart.layers.size(); ++layer) {
    if (tops[layer + 1] != tops[layer]) entries.push_back({chart.names[layer], str("p", layer)});
  }
  double top = kTitle;
  const std::string names = legend(entries, frame.width, &top);
  const double height = frame.height + top - kTitle;
  const Area area{kLeft, frame.width - kRight, top + 8, height - kBottom};
  const Axis x(x_range, area.left, area.right, /*may_be_log=*/false, /*widen=*/false);
  const Axis y(y_range, area.bottom, area.top, /*may_be_log=*/false, /*widen=*/true);
  std::string svg = opened(frame.width, height, chart.title);
  svg += text(2, 13, "title", "start", chart.title) + names + axes(x, y, area, chart.x_label);
  for (size_t layer = 0; layer < chart.layers.size(); ++layer) {
    if (tops[layer + 1] == tops[layer] || xs.size() < 2) continue;
    std::string path = "M";
    for (size_t i = 0; i < xs.size(); ++i) {
      path += str(i > 0 ? "L" : "", fixed(x(xs[i]), 1), " ", fixed(y(tops[layer + 1][i]), 1));
    }
    for (size_t i = xs.size(); i-- > 0;)
      path += str("L", fixed(x(xs[i]), 1), " ", fixed(y(tops[layer][i]), 1));
    svg += str("<path d=\"", path, "Z\" class=\"p", layer, "\"><title>",
               html_text(chart.names[layer]), "</title></path>\n");
  }
  return svg + "</svg>\n";
}

std::string bar_chart(const Table& table, const Frame& frame) {
  Range ys;
  ys.include(0);
  std::vector<LegendEntry> entries;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    for (const double cell : table.cells[row]) ys.include(cell);
    entries.push_back({shortened(table.rows[row]), str("p", row % kColors)});
  }
  double top = kTitle;
  const std::string names = legend(entries, frame.width, &top);
  const double height = frame.height + top - kTitle;
  const Area area{kLeft, frame.width - kRight, top + 8, height - kBottom};
  const Axis y(ys, area.bottom, area.top, /*may_be_log=*/false, /*widen=*/true);
  std::string svg =
      opened(frame.width, height, table.name) + text(2, 13, "title", "start", table.name) + names;
  for (const double tick : y.ticks()) {
    svg += line(area.left, y(tick), area.right, y(tick), "grid");
    svg += text(area.left - 5, y(tick) + 4, "tick", "end", number(tick));
  }
  const double group = (area.right - area.left) / static_cast<double>(table.columns.size());
  const double bar = 0.84 * group / static_cast<double>(table.rows.size());
  const bool sparse = group < 26;  // no room for each label
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const double left = area.left + group * static_cast<double>(column);
    if (!sparse || column % 4 == 0)
      svg += text(left + group / 2, area.bottom + 14, "tick", "middle",
                  shortened(table.columns[column]));
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const double cell = table.cells[row][column];
      if (!std::isfinite(cell)) continue;
      const double at = y(cell);
      svg += rect(left + 0.08 * group + bar * static_cast<double>(row), std::min(at, y(0)), bar,
                  std::abs(y(0) - at), str("p", row % kColors),
                  str(table.rows[row], ", ", table.columns[column], ": ", number(cell)));
    }
  }
  return svg + line(area.left, area.bottom, area.right, area.bottom, "axis") + "</svg>\n";
}

std::string heat_map(const Table& table) {
  const auto size = static_cast<double>(table.rows.size());
  const bool named = table.rows.size() <= 12;
  const double cell = named ? 26 : std::max(4.0, 300 / size), left = named ? 96 : 14, top = 34;
  const double width = left + cell * size + 4, height = top + cell * size + (named ? 70 : 16);
  std::string svg = opened(std::max(width, 200.0), height, table.name);
  svg += text(2, 13, "title", "start", "confusion");
  svg += text(left + cell * size / 2, top - 6, "tick", "middle", "prediction");
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const double y = top + cell * static_cast<double>(row);
    double sum = 0;
    for (const double value : table.cells[row])
      sum += std::isfinite(value) && value > 0 ? value : 0;
    if (named) {
      svg += text(left - 5, y + 17, "tick", "end", shortened(table.rows[row], 14));
    }
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const double value = table.cells[row][column];
      if (!std::isfinite(value) || value <= 0) continue;
      const double x = left + cell * static_cast<double>(column);
      // Ten steps of color, so that the style needs no numbers.
      const int level = std::clamp(static_cast<int>(std::ceil(10 * value / sum)), 1, 10);
      svg += rect(x, y, cell - 1, cell - 1, str(row == column ? "hit" : "miss", level),
                  str(table.rows[row], " taken for ", table.columns[column], ": ", number(value),
                      " of ", number(sum)));
      if (named) svg += text(x + cell / 2 - 0.5, y + 17, "cell", "middle", number(value));
    }
  }
  if (named) {
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const double x = left + cell * (static_cast<double>(column) + 0.6), y = top + cell * size + 8;
      svg += str("<text transform=\"translate(", fixed(x, 1), " ", fixed(y, 1),
                 ") rotate(-45)\" class=\"tick\" text-anchor=\"end\">",
                 html_text(shortened(table.columns[column], 14)), "</text>\n");
    }
  }
  return svg + "</svg>\n";
}

std::string share_bar(const std::vector<double>& shares, const std::vector<std::string>& names) {
  std::string svg =
      "<svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\">\n";
  double x = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double width = 100 * std::clamp(std::isfinite(shares[i]) ? shares[i] : 0, 0.0, 1.0);
    if (width < 0.05) continue;
    svg += rect(x, 0, width, 8, str("p", i), str(names[i], ": ", fixed(width, 1), " %"));
    x += width;
  }
  return svg + "</svg>";
}

std::string standalone_svg(const std::string& title, const std::vector<LineChart>& charts) {
  constexpr double kWidth = 760, kHeight = 230, kGap = 10, kTop = 30;
  std::string body;
  double y = kTop;
  for (const LineChart& chart : charts) {
    const std::string svg = line_chart(chart, {kWidth, kHeight});
    const size_t box = svg.find("viewBox=\"0 0 ") + 13;
    const double height = std::stod(svg.substr(svg.find(' ', box)));
    body += str("<svg y=\"", fixed(y, 0), "\" width=\"", kWidth, "\" height=\"", height, "\"",
                svg.substr(4));
    y += height + kGap;
  }
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", fixed(y, 0),
             "\" width=\"", kWidth, "\" height=\"", fixed(y, 0), "\">\n<style>", kLightStyle,
             "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
             "<text x=\"2\" y=\"18\" class=\"title\">", html_text(title), "</text>\n", body,
             "</svg>\n");
}

}  // namespace dtrain::report
