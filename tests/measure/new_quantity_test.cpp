// One row more in the table of quantities (fixture/measure/quantities.def), and nothing else: the
// records, the metrics, the live page, the report and the document have it.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "monitoring/http_client.h"
#include "monitoring/jsonl_sink.h"
#include "monitoring/live_page.h"
#include "monitoring/prometheus_sink.h"
#include "monitoring/series.h"
#include "os/file_system.h"
#include "report/add_records.h"
#include "report/digest.h"
#include "report/page.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain {
namespace {

using measure::Quantity;
using nlohmann::json;

monitoring::StepStats step(int64_t number) {
  monitoring::StepStats stats;
  stats.step = number;
  stats.total_steps = 100;
  stats.steps_per_epoch = 100;
  stats.logging = true;
  stats.loss = stats.step_seconds = 0.5;
  stats.own = measure::RankMeans{.times = {.wall = 0.5}, .values = {{Quantity::kFanTurns, 30}}};
  stats.ranks = {*stats.own};
  return stats;
}

TEST(NewQuantity, IsInTheRecordsAndInWhatTheReportReads) {
  const testing::TempDir folder;
  {
    const auto sink = monitoring::make_jsonl_sink(folder / "metrics.jsonl", 0);
    for (const int64_t number : {30, 40, 50}) sink->record(step(number));
  }
  const std::string text = read_text(folder / "metrics.jsonl");
  EXPECT_EQ(json::parse(split(text, '\n').at(0))["ranks"][0]["fan"]["turns"], 30);
  report::RunRecords run;
  report::add_records(run, text);
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[0].ranks.at(0).values[Quantity::kFanTurns], 30);
  const report::Digest digest = report::digest(run);
  EXPECT_EQ(digest.ranks.at(0).values[Quantity::kFanTurns], 30);
  EXPECT_EQ(json::parse(report::report_json(run, digest, {}))["ranks"][0]["values"]["fan.turns"],
            30);
}

monitoring::Identity rank_zero() {
  monitoring::Identity id;
  id.job_id = "job";
  id.node = "here";
  return id;
}

config::Metrics any_port() {
  config::Metrics metrics;
  metrics.port = 0;
  return metrics;
}

TEST(NewQuantity, IsExported) {
  const auto sink = monitoring::make_prometheus_sink(any_port(), rank_zero());
  sink->record(step(10));
  EXPECT_EQ(monitoring::testing::value_of(monitoring::testing::scrape(sink->address()),
                                          "dtrain_fan_turns_total", "rank=\"0\""),
            "300");
}

// An entry of its own in ctest, which shows it as skipped without promtool.
TEST(NewQuantityPromtool, ReadsIt) {
  const auto sink = monitoring::make_prometheus_sink(any_port(), rank_zero());
  sink->record(step(10));
  const testing::TempDir folder;
  std::ofstream(folder / "metrics") << monitoring::testing::scrape(sink->address());
  if (std::system("promtool --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is missing (Debian package prometheus)";
  const std::string check = "promtool check metrics < " + (folder / "metrics").string() + " > " +
                            (folder / "said").string() + " 2>&1";
  EXPECT_EQ(std::system(check.c_str()), 0) << read_text(folder / "said");
}

TEST(NewQuantity, IsAColumnOfTheLivePage) {
  monitoring::LivePage page("run", {});
  page.record(step(10));
  for (const monitoring::Page& part : page.pages()) {
    if (part.path != "/state.json") continue;
    const json state = json::parse(part.body({}));
    EXPECT_EQ(state["quantities"].back(), json({"fan", "turns"}));
    EXPECT_EQ(state["ranks"][0]["values"].back(), 30);
    return;
  }
  FAIL() << "there is no state.json";
}

TEST(NewQuantity, IsInTheGeneratedDocument) {
  EXPECT_THROW(monitoring::metric_table("fans"), DataError);
  EXPECT_NE(monitoring::metric_table("quantities")
                .find("| `fan.turns` | turns | per step | as `dtrain_fan_turns_total` |\n"),
            std::string::npos);
  EXPECT_NE(monitoring::metric_table("series").find(
                "| `dtrain_fan_turns_total` | counter | all | Turns of the fan |\n"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain
