#include "monitoring/plot.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::monitoring {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(round_ticks(0, 100), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  for (const auto& [low, high] : std::initializer_list<std::pair<double, double>>{
           {0.013, 0.87}, {-3, 7}, {1e-9, 3e-9}, {5, 5}, {0, 0}, {12345, 67890}}) {
    const std::vector<double> ticks = round_ticks(low, high);
    EXPECT_LE(ticks.front(), low);
    EXPECT_GE(ticks.back(), high);
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 9u);
  }
}

TEST(Plot, DrawsEverySeriesAndEscapesNames) {
  const std::string svg = plot_svg(
      "a < b & \"c\"", "step",
      {{"loss", {{"train", {1, 2, 3}, {3, 2, 1}}, {"val", {2, 3}, {2, 1.5}}}}, {"MAE", {{"val", {2, 3}, {20, 10}}}}});
  EXPECT_EQ(count(svg, "<path "), 3u);
  EXPECT_EQ(count(svg, "<circle "), 7u);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, NotANumberLeavesAGap) {
  const std::string svg = plot_svg("t", "x", {{"y", {{"s", {1, 2, 3, 4, 5}, {1, 2, NAN, 2, 1}}}}});
  const size_t path = svg.find("<path d=\"");
  const std::string d = svg.substr(path, svg.find('"', path + 9) - path);
  EXPECT_EQ(count(d, "M"), 2u) << d;
  EXPECT_EQ(count(d, "L"), 2u) << d;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, ALongRunStaysSmallAndAnEmptyOneIsStillAPlot) {
  Series s{"train", {}, {}};
  for (int i = 0; i < 100000; ++i) {
    s.x.push_back(i);
    s.y.push_back(std::exp(-1e-4 * i));
  }
  EXPECT_LT(plot_svg("t", "x", {{"y", {s}}}).size(), 40000u);
  EXPECT_NE(plot_svg("t", "x", {{"y", {{"s", {}, {}}}}}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::monitoring
