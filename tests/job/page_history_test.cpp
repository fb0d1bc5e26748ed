#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "job/run_display.h"
#include "monitoring/jsonl_sink.h"
#include "monitoring/sample_stats.h"
#include "support/temp_dir.h"

namespace dtrain::job {
namespace {

using monitoring::testing::sample_eval;
using monitoring::testing::sample_step;
using nlohmann::json;

json shown(const monitoring::LivePage& page) { return json::parse(page.pages().back().body({})); }

TEST(PageHistory, AResumedRunShowsItsEarlierStepsAndEvaluations) {
  const testing::TempDir folder;
  {
    const auto sink = monitoring::make_jsonl_sink(folder / "metrics.jsonl", 0);
    monitoring::StepStats s = sample_step();
    for (s.step = 10; s.step <= 30; s.step += 10) sink->record(s);
    sink->record(sample_eval());
  }
  std::ofstream(folder / "metrics.jsonl", std::ios::app)
      << "{\"kind\": \"step\", \"st";  // a crash cut it short
  std::ofstream(folder / "environment.json")
      << R"({"metrics": [{"name": "mae", "unit": "degrees", "higher_is_better": false}]})";
  monitoring::LivePage page("r", {});
  show_earlier(page, folder.path());
  const json state = shown(page);
  ASSERT_EQ(state["points"].size(), 3u);
  EXPECT_EQ(state["points"][2][0], 30);
  const json columns = state["columns"];
  const auto loss = std::find(columns.begin(), columns.end(), "loss") - columns.begin();
  EXPECT_EQ(state["points"][0][static_cast<size_t>(loss)], 0.1234);
  ASSERT_EQ(state["evaluations"].size(), 1u);
  EXPECT_EQ(state["evaluations"][0]["metrics"][1], json::parse(R"(["mae", 6.21, "degrees"])"));
}

TEST(PageHistory, WithoutAReadableFolderThePageBeginsEmpty) {
  const testing::TempDir folder;
  monitoring::LivePage page("r", {});
  show_earlier(page, folder / "missing");
  EXPECT_TRUE(shown(page)["points"].empty());
}

}  // namespace
}  // namespace dtrain::job
