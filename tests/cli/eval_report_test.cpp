#include "cli/eval_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace dtrain::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

EvalReport example() {
  EvalReport report{.checkpoint = "runs/x/checkpoints/step_00000100",
                    .chosen = "best: top1 0.9000",
                    .data = "d.h5",
                    .protocol = "AFLW2000: within 99 degrees",
                    .task = "classify",
                    .network = "simple_cnn",
                    .precision = "fp32",
                    .worst = {{17, 3.25, "cat/a.png"}, {4, kNaN, "dog/b.png"}}};
  report.stats.split = "test";
  report.stats.samples = 12345;
  report.stats.seconds = 2;
  report.stats.metrics = {{"loss", 0.5}, {"zeta", 0.25}, {"alpha", kNaN}};
  report.stats.tables = {
      {"per class", {"precision", "samples"}, {"Käse", "b"}, {{0.5, 10}, {kNaN, 0}}}};
  return report;
}

TEST(EvalReport, AlignsATableByCharacters) {
  EXPECT_EQ(to_text(example().stats.tables[0]),
            "per class\n"
            "        precision  samples\n"
            "  Käse     0.5000       10\n"
            "  b             -        0\n");
}

TEST(EvalReport, AlignsNamesByTheirEscapes) {
  EXPECT_EQ(to_text(Table{"per class", {"a\tb"}, {"\x1b[1m", "b"}, {{1}, {2}}}),
            "per class\n"
            "           a\\tb\n"
            "  \\x1b[1m     1\n"
            "  b           2\n");
}

TEST(EvalReport, LeavesAConfusionMatrixOfManyClassesToTheJson) {
  Table matrix{.name = "confusion", .columns = {}, .rows = {}, .cells = {}};
  for (int i = 0; i < 21; ++i) {
    matrix.columns.push_back(std::to_string(i));
    matrix.rows.push_back(std::to_string(i));
    matrix.cells.emplace_back(21, 7.0);
  }
  EXPECT_THAT(to_text(matrix), HasSubstr("21 x 21: see --json"));
  matrix.rows.pop_back();
  matrix.cells.pop_back();
  EXPECT_THAT(to_text(matrix), Not(HasSubstr("see --json"))) << "no square: per class";
}

TEST(EvalReport, KeepsTheOrderOfTheMetricsAndNamesTheWorst) {
  const std::string text = to_text(example());
  EXPECT_THAT(text,
              HasSubstr("checkpoint  runs/x/checkpoints/step_00000100 (best: top1 0.9000)\n"));
  EXPECT_LT(text.find("loss  "), text.find("zeta  "));
  EXPECT_LT(text.find("zeta  "), text.find("alpha  "));
  EXPECT_THAT(text, HasSubstr("protocol    AFLW2000: within 99 degrees"));
  EXPECT_THAT(text, HasSubstr("6172.5 samples/s"));
  EXPECT_THAT(text, HasSubstr("    3.2500  #17       cat/a.png"));
}

TEST(EvalReport, IsJsonWithNullForNaN) {
  const auto json = nlohmann::ordered_json::parse(to_json(example()));
  EXPECT_EQ(json["metrics"].begin().key(), "loss");
  EXPECT_EQ(json["metrics"]["zeta"], 0.25);
  EXPECT_TRUE(json["metrics"]["alpha"].is_null());
  EXPECT_EQ(json["tables"][0]["rows"][0], "Käse");
  EXPECT_TRUE(json["tables"][0]["cells"][1][0].is_null());
  EXPECT_EQ(json["worst"][0]["source"], "cat/a.png");
  EXPECT_TRUE(json["worst"][1]["error"].is_null());
}

}  // namespace
}  // namespace dtrain::cli
