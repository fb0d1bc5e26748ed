// What the plot of a run says, from its records.

#include "job/run_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/file_system.h"
#include "core/strings.h"
#include "support/temp_dir.h"

namespace dtrain::job {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The texts of one class of an SVG, in their order.
std::vector<std::string> texts(const std::string& svg, const std::string& css) {
  std::vector<std::string> found;
  const std::string mark = "class=\"" + css + "\"";
  for (size_t at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1)) {
    const size_t begin = svg.find('>', at) + 1;
    found.push_back(svg.substr(begin, svg.find('<', begin) - begin));
  }
  return found;
}

class RunPlot : public ::testing::Test {
 protected:
  std::string drawn(const std::vector<tasks::MetricSpec>& metrics) {
    write_run_plot(run.path(), metrics);
    return read_text(run / "loss.svg");
  }
  void record(const std::string& line) { std::ofstream(run / "metrics.jsonl", std::ios::app) << line << "\n"; }

  testing::TempDir run;
};

TEST_F(RunPlot, GivesEachUnitAPanelAndKeepsTheTasksOrder) {
  for (const char* step : {"1", "2"}) {
    record(str(R"({"kind": "step", "loss": 2, "step": )", step, "}"));
    record(str(R"({"kind": "eval", "split": "val", "metrics": {"accuracy": 0.5, "error": 30, "loss": 2,)",
               R"("mse": 4, "worst_error": 90, "zeal": 0.25, "unlisted": 1}, "step": )", step, "}"));
  }
  const std::string svg = drawn({{"loss"},
                                 {.name = "zeal", .unit = "share"},
                                 {.name = "error", .unit = "degrees"},
                                 {.name = "accuracy", .unit = "share"},
                                 {.name = "worst_error", .unit = "degrees"},
                                 {.name = "absent", .unit = "metres"}});
  EXPECT_THAT(texts(svg, "label"), ElementsAre("loss", "share", "degrees", "optimizer step"));
  EXPECT_THAT(texts(svg, "legend"),
              ElementsAre("training loss", "validation loss", "zeal", "accuracy", "error", "worst_error"));
}

TEST_F(RunPlot, LeavesOutWhatIsNoNumber) {
  record(R"({"kind": "step", "step": 1, "loss": 2})");
  record(R"({"kind": "step", "step": 2, "loss": null})");
  record(R"({"kind": "step", "step": 3, "loss": 1})");
  record(R"({"kind": "eval", "split": "val", "step": 3, "metrics": {"loss": null, "mae": 3}})");
  record(R"({"kind": "eval", "split": "test", "step": 3, "metrics": {"loss": 1}})");
  EXPECT_THAT(texts(drawn({{"loss"}, {.name = "mae", .unit = "degrees"}}), "legend"),
              ElementsAre("training loss", "mae"));
}

TEST_F(RunPlot, DrawsNothingOfOneStep) {
  record(R"({"kind": "step", "step": 1, "loss": 2})");
  write_run_plot(run.path(), {{"loss"}});
  EXPECT_FALSE(std::filesystem::exists(run / "loss.svg"));
}

}  // namespace
}  // namespace dtrain::job
