#include "report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

namespace dtrain::report {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(round_ticks(0, 100), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  for (const auto& [low, high] :
       std::initializer_list<std::pair<double, double>>{{0.013, 0.87},
                                                        {-3, 7},
                                                        {1e-9, 3e-9},
                                                        {5, 5},
                                                        {0, 0},
                                                        {12345, 67890},
                                                        {1, std::nextafter(1, 2)},
                                                        {-1e100, 1e100}}) {
    const std::vector<double> ticks = round_ticks(low, high);
    EXPECT_LE(ticks.front(), low);
    EXPECT_GE(ticks.back(), high);
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 21u);
  }
}

TEST(LineChart, DrawsEverySeriesAndEscapesNames) {
  const std::string svg = line_chart(
      {"a < b & \"c\"", "step", {{"train", {1, 2, 3}, {3, 2, 1}}, {"<val>", {2, 3}, {2, 1.5}}}});
  EXPECT_EQ(count(svg, "<path "), 2u);
  EXPECT_EQ(count(svg, "<circle "), 5u);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("&lt;val&gt;: 1.5"), std::string::npos) << "with the last value";
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(LineChart, NotANumberLeavesAGap) {
  const std::string svg = line_chart({"t", "x", {{"s", {1, 2, 3, 4, 5}, {1, 2, NAN, 2, 1}}}});
  const size_t path = svg.find("<path d=\"");
  const std::string d = svg.substr(path, svg.find('"', path + 9) - path);
  EXPECT_EQ(count(d, "M"), 2u) << d;
  EXPECT_EQ(count(d, "L"), 2u) << d;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(LineChart, WideRangesAreLogarithmic) {
  EXPECT_NE(
      line_chart({"loss", "x", {{"s", {1, 2, 3}, {100, 1, 0.01}}}}).find("loss (logarithmic)"),
      std::string::npos);
  EXPECT_EQ(line_chart({"loss", "x", {{"s", {1, 2, 3}, {100, 1, 0}}}}).find("(logarithmic)"),
            std::string::npos);
  EXPECT_EQ(line_chart({"loss", "x", {{"s", {1, 2, 3}, {3, 2, 1}}}}).find("(logarithmic)"),
            std::string::npos);
}

TEST(LineChart, ALongRunStaysSmallAndAnEmptyOneIsStillAChart) {
  Series s{"train", {}, {}};
  for (int i = 0; i < 100000; ++i) {
    s.x.push_back(i);
    s.y.push_back(std::exp(-1e-5 * i));
  }
  EXPECT_LT(line_chart({"t", "x", {s}}).size(), 20000u);
  EXPECT_NE(line_chart({"t", "x", {{"s", {}, {}}}}).find("</svg>"), std::string::npos);
  const std::string huge = line_chart({"t", "x", {{"s", {1, 2}, {1e300, -1e300}}}});
  EXPECT_EQ(huge.find("inf"), std::string::npos);
}

TEST(AreaChart, StacksWhatThereIs) {
  const std::string svg = area_chart(
      {"ms", "step", {1, 2, 3}, {"a", "b", "none"}, {{1, 1, 1}, {2, NAN, 2}, {0, 0, 0}}});
  EXPECT_EQ(count(svg, "<path "), 2u);
  EXPECT_EQ(count(svg, ">none<"), 0u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(area_chart({"ms", "step", {}, {"a"}, {{}}}).find("</svg>"), std::string::npos);
}

TEST(HeatMap, ColorsCellsByTheirRow) {
  const Table table{.name = "confusion",
                    .columns = {"<cat>", "dog"},
                    .rows = {"<cat>", "dog"},
                    .cells = {{9, 1}, {0, NAN}}};
  const std::string svg = heat_map(table);
  EXPECT_EQ(count(svg, "class=\"hit9\""), 1u);
  EXPECT_EQ(count(svg, "class=\"miss1\""), 1u);
  EXPECT_EQ(count(svg, "<rect "), 2u) << "nothing is drawn for none";
  EXPECT_EQ(count(svg, "<cat>"), 0u);
  EXPECT_NE(svg.find("&lt;cat&gt; taken for dog: 1 of 10"), std::string::npos);
}

TEST(BarChart, HasABarForEachNumber) {
  const Table table{.name = "errors",
                    .columns = {"0-1", "1-2", "2+"},
                    .rows = {"yaw", "roll"},
                    .cells = {{1, 2, 3}, {4, NAN, 6}}};
  const std::string svg = bar_chart(table);
  EXPECT_EQ(count(svg, "<rect "), 5u + 2u) << "two of them are the legend's";
  EXPECT_NE(svg.find("yaw, 1-2: 2"), std::string::npos);
}

TEST(ShareBar, HasNoNegativeOrUnknownParts) {
  const std::string svg = share_bar({0.5, -1, NAN, 0.25}, {"a", "b", "c", "d"});
  EXPECT_EQ(count(svg, "<rect "), 2u);
  EXPECT_NE(svg.find("a: 50.0 %"), std::string::npos);
}

TEST(Standalone, HoldsChartsBelowEachOther) {
  const LineChart chart{"loss", "step", {{"train", {1, 2}, {2, 1}}}};
  const std::string svg = standalone_svg("my <run>", {chart, chart});
  EXPECT_EQ(count(svg, "<svg "), 3u);
  EXPECT_EQ(count(svg, "</svg>"), 3u);
  EXPECT_NE(svg.find("my &lt;run&gt;"), std::string::npos);
  EXPECT_NE(svg.find("<style>"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::report
