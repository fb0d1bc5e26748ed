#include "monitoring/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>

#include "core/strings.h"

namespace dtrain::monitoring {
namespace {

constexpr double kWidth = 760, kPanelHeight = 210, kGap = 26, kTop = 44, kLeft = 68, kRight = 20, kBottom = 46;
// The colors of Okabe and Ito, which color-blind readers can tell apart.
constexpr std::array<const char*, 6> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string number(double value) {
  std::ostringstream out;
  out.precision(6);
  out << (std::abs(value) < 1e-12 ? 0.0 : value);
  return out.str();
}

std::string text(double x, double y, const char* css, const char* anchor, const std::string& content,
                 const char* more = "") {
  return str("<text x=\"", fixed(x, 1), "\" y=\"", fixed(y, 1), "\" class=\"", css, "\" text-anchor=\"", anchor, "\"",
             more, ">", escaped(content), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, const char* css) {
  return str("<line x1=\"", fixed(x1, 1), "\" y1=\"", fixed(y1, 1), "\" x2=\"", fixed(x2, 1), "\" y2=\"", fixed(y2, 1),
             "\" class=\"", css, "\"/>\n");
}

// Draws at most 800 points. Of more, each point is the mean of a group.
template <typename X, typename Y>
std::string curve(const Series& s, const char* color, X to_x, Y to_y) {
  const size_t count = std::min(s.x.size(), s.y.size());
  const size_t group = std::max<size_t>(1, (count + 799) / 800);
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
    if (!std::isfinite(x) || !std::isfinite(y)) {
      pen_down = false;
      continue;
    }
    path += str(pen_down ? "L" : "M", fixed(to_x(x), 1), " ", fixed(to_y(y), 1));
    dots +=
        str("<circle cx=\"", fixed(to_x(x), 1), "\" cy=\"", fixed(to_y(y), 1), "\" r=\"2.5\" fill=\"", color, "\"/>\n");
    pen_down = true;
    ++drawn;
  }
  std::string out = str("<path d=\"", path, "\" fill=\"none\" stroke=\"", color,
                        "\" stroke-width=\"1.6\" stroke-linejoin=\"round\"/>\n");
  return drawn <= 60 ? out + dots : out;
}

}  // namespace

std::vector<double> round_ticks(double low, double high) {
  if (!(high > low)) {
    const double pad = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= pad;
    high += pad;
  }
  const double rough = (high - low) / 5, power = std::pow(10.0, std::floor(std::log10(rough))), share = rough / power;
  const double step = power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string plot_svg(const std::string& title, const std::string& x_label, const std::vector<Panel>& panels) {
  Range xs;
  for (const Panel& panel : panels) {
    for (const Series& s : panel.series) {
      for (const double x : s.x) xs.include(x);
    }
  }
  if (xs.empty()) xs = {0, 1};
  const std::vector<double> x_ticks = round_ticks(xs.low, xs.high);
  const auto to_x = [&](double x) {
    return kLeft + (x - xs.low) / std::max(xs.high - xs.low, 1e-300) * (kWidth - kLeft - kRight);
  };
  const double height = kTop + static_cast<double>(panels.size()) * (kPanelHeight + kGap) - kGap + kBottom;
  std::string svg =
      str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height, "\" width=\"", kWidth,
          "\" height=\"", height, "\">\n<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:12px;",
          "fill:#444}.title{font-size:15px;font-weight:600;fill:#222}.legend{paint-order:stroke;stroke:#fff;stroke-"
          "width:3px}.grid{stroke:#e6e6e6}.axis{stroke:#999}",
          "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
  svg += text(kLeft, 24, "title", "start", title);
  double top = kTop;
  for (const Panel& panel : panels) {
    Range ys;
    for (const Series& s : panel.series) {
      for (const double y : s.y) ys.include(y);
    }
    if (ys.empty()) ys = {0, 1};
    const std::vector<double> y_ticks = round_ticks(ys.low, ys.high);
    const double bottom = top + kPanelHeight;
    const auto to_y = [&](double y) {
      return bottom - (y - y_ticks.front()) / (y_ticks.back() - y_ticks.front()) * kPanelHeight;
    };
    for (const double tick : y_ticks) {
      svg += line(kLeft, to_y(tick), kWidth - kRight, to_y(tick), "grid");
      svg += text(kLeft - 8, to_y(tick) + 4, "tick", "end", number(tick));
    }
    for (const double tick : x_ticks) {
      if (tick < xs.low - 1e-9 || tick > xs.high + 1e-9) continue;
      svg += line(to_x(tick), top, to_x(tick), bottom, "grid");
      if (&panel == &panels.back()) svg += text(to_x(tick), bottom + 18, "tick", "middle", number(tick));
    }
    svg += line(kLeft, bottom, kWidth - kRight, bottom, "axis");
    const double middle = (top + bottom) / 2;
    svg += text(18, middle, "label", "middle", panel.y_label,
                str(" transform=\"rotate(-90 18 ", fixed(middle, 1), ")\"").c_str());
    for (size_t i = 0; i < panel.series.size(); ++i) {
      const char* color = kColors[i % kColors.size()];
      svg += curve(panel.series[i], color, to_x, to_y);
      const double y = top + 16 + 18 * static_cast<double>(i);
      svg += str("<rect x=\"", kWidth - kRight - 22, "\" y=\"", fixed(y - 6, 1), "\" width=\"16\" height=\"4\" fill=\"",
                 color, "\"/>\n");
      svg += text(kWidth - kRight - 28, y, "legend", "end", panel.series[i].name);
    }
    top = bottom + kGap;
  }
  svg += text((kLeft + kWidth - kRight) / 2, height - 10, "label", "middle", x_label);
  return svg + "</svg>\n";
}

}  // namespace dtrain::monitoring
