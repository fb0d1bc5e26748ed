// The page: everything that others named is escaped, it needs nothing from outside, and it
// is small.

#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "report/add_records.h"
#include "report/curves.h"
#include "report/page_parts.h"
#include "report/read_run.h"
#include "run_folder.h"

namespace dtrain::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHostile = "</script><script>alert(\"1\")</script>\u2028' onerror='x";

std::string page_of(const RunRecords& run, const ContactSheet& sheet = {}) {
  return page(run, digest(run), sheet, 1e9);
}

// What a browser could take for tags and attributes.
std::string without_data(const std::string& html) {
  return html.substr(0, html.find("id=\"dtrain-report\">"));
}

nlohmann::json data_of(const std::string& html) {
  const std::string begin = "id=\"dtrain-report\">";
  const size_t at = html.find(begin) + begin.size();
  return nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
}

RunRecords hostile_run() {
  const testing::RunFolder folder;
  folder.whole_run();
  RunRecords run = read_run(folder.path());
  run.name = kHostile;
  run.reason = kHostile;
  run.environment.data = run.environment.network = run.environment.versions = kHostile;
  run.environment.ranks[0].node = run.environment.ranks[1].device = kHostile;
  run.config.emplace_back("data.file", kHostile);
  run.gaps.push_back(kHostile);
  run.verdict.text = kHostile;
  run.verdict.causes = {{.name = kHostile, .setting = kHostile, .evidence = kHostile}};
  run.verdict.not_measured = {kHostile};
  run.checkpoints = {{.name = kHostile}};
  run.evaluations.back().metrics.emplace_back(kHostile, 1);
  run.evaluations.front().metrics.emplace_back(kHostile, 1);
  run.evaluations.back().tables = {
      {.name = kHostile, .columns = {kHostile}, .rows = {"a"}, .cells = {{1}}},
      {.name = "c",
       .columns = {kHostile, "b"},
       .rows = {kHostile, "b"},
       .cells = {{1, 2}, {3, 4}}}};
  run.steps[5].ranks = {{.rank = 0}, {.rank = 1}};
  return run;
}

TEST(Page, TheVerdictHasTheSplitOfCommunication) {
  RunRecords run;
  EXPECT_THAT(page_of(run), Not(HasSubstr("communication: ")));
  run.verdict.communication.late = 0.0031;
  const std::string html = page_of(run);
  EXPECT_THAT(without_data(html),
              HasSubstr("<p>communication: 3.1 ms per step = late rank 3.1</p>"));
  EXPECT_EQ(data_of(html)["verdict"]["communication"]["late_seconds"], 0.0031);
}

TEST(Page, ACauseHasItsSettingAndWhatElseIsSaidOfIt) {
  RunRecords run;
  run.verdict.causes = {
      {.name = "optimizer", .setting = "--accumulate 8", .otherwise = "(a larger <batch>)"}};
  EXPECT_THAT(without_data(page_of(run)),
              HasSubstr("<code>--accumulate 8</code> (a larger &lt;batch&gt;)"));
}

TEST(Page, TheVerdictHasWhatWasMeasuredBeforeTraining) {
  RunRecords run;
  EXPECT_THAT(page_of(run), Not(HasSubstr("measured before training")));
  EXPECT_FALSE(data_of(page_of(run))["verdict"].contains("headroom"));
  run.verdict.probes = {.cached_step = 0.0082, .latency = 25e-6, .seconds_per_byte = 1e-9 / 3};
  const std::string html = page_of(run);
  EXPECT_THAT(
      without_data(html),
      HasSubstr("measured before training: 8.2 ms per step with batches from memory; 0.025 ms "
                "+ 0.350 ms per MiB for an all-reduce"));
  EXPECT_EQ(data_of(html)["verdict"]["headroom"]["step_seconds"], 0.0082);
  EXPECT_EQ(data_of(html)["verdict"]["all_reduce"]["latency_seconds"], 25e-6);
}

TEST(Page, TheTableOfRanksHasTheCoresThatWereBusy) {
  RunRecords run;
  for (int64_t step = 1; step <= 8; ++step) {
    run.steps.push_back(
        {.step = step,
         .ranks = {{.rank = 0,
                    .step_seconds = 0.1,
                    .values = {{Quantity::kCpu, 0.19}, {Quantity::kCores, 4}}},
                   {.rank = 1, .step_seconds = 0.1, .values = {{Quantity::kCores, 6}}}}});
  }
  const std::string html = page_of(run);
  EXPECT_THAT(without_data(html), HasSubstr(">1.9 of 4</td>"));
  EXPECT_THAT(without_data(html), Not(HasSubstr(">6.0</td>")))
      << "cores that a rank may use are not busy";
  EXPECT_EQ(data_of(html)["ranks"][0]["cores_busy"], 1.9);
  EXPECT_EQ(data_of(html)["ranks"][0]["cores"], 4);
}

TEST(Page, NamesOfOthersAreShownAndNeverRun) {
  const ContactSheet sheet{
      .caption = kHostile,
      .samples = {{.name = kHostile, .target = kHostile, .prediction = kHostile}}};
  ContactSheet pictures = sheet;
  pictures.samples[0].picture = "data:image/jpeg;base64,AAAA";
  const RunRecords run = hostile_run();
  for (const ContactSheet& shown : {sheet, pictures}) {
    const std::string html = page_of(run, shown);
    EXPECT_THAT(html, Not(HasSubstr("<script>")));
    EXPECT_THAT(without_data(html), Not(HasSubstr("onerror='")));
    EXPECT_THAT(without_data(html), Not(HasSubstr("alert(\"")));
    EXPECT_EQ(html.find("</script>"), html.rfind("</script>")) << "the one of the data";
    EXPECT_EQ(data_of(html)["name"], kHostile) << "as JSON it is the same text again";
    EXPECT_EQ(data_of(html)["samples"][0]["target"], kHostile);
  }
  RunRecords second = run;
  second.config.back().second = kHostile + "2";
  const Digest a = digest(run), b = digest(second);
  const std::string html =
      comparison_page({run, a}, {second, b}, regressions(run, a, second, b, 0.05), 0.05, 1e9);
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(without_data(html), Not(HasSubstr("onerror='")));
  EXPECT_EQ(data_of(html)["differences"][0]["second"], kHostile + "2");
}

TEST(Page, NeedsNothingFromOutsideAndRunsNothing) {
  const testing::RunFolder folder;
  folder.whole_run();
  const std::string html = page_of(read_run(folder.path()));
  const std::string without_namespace =
      std::regex_replace(html, std::regex("http://www.w3.org/2000/svg"), "");
  for (const char* part : {"http:", "https:", "src=\"/", "@import", "url("}) {
    EXPECT_EQ(without_namespace.find(part), std::string::npos) << part;
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("{{")));
}

TEST(Page, HasEverySectionThatTheRunHas) {
  const testing::RunFolder folder;
  folder.whole_run();
  const std::string html = page_of(read_run(folder.path()));
  for (const char* part : {"Verdict", "Where the time went", "Learning", "Steps",
                           "Ranks and devices", "Results", "Setup", "no times of single ranks",
                           "compute-bound 90 %", "validation, degrees", "learning rate"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("Slowest steps")));
  EXPECT_THAT(html, Not(HasSubstr("Left out")));
  const testing::RunFolder nothing;
  nothing.write("metrics.jsonl", "");
  EXPECT_THAT(page_of(read_run(nothing.path())), HasSubstr("Left out"));
}

TEST(Page, OfALongRunWithManyRanksIsSmall) {
  RunRecords run;
  std::string text, ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks += str(rank > 0 ? "," : "", R"({"rank":)", rank,
                 R"(,"phase_seconds":{"forward":0.0301,"backward":0.0502}})");
  }
  for (int step = 1; step <= 20000; ++step) {
    text += str(
        R"({"kind":"step","step":)", step, R"(,"loss":)", 1.0 / step,
        R"(,"grad_norm":0.123456789,"learning_rate":0.00123456,)", R"("samples_per_second":)",
        300.123 + step % 7,
        R"(,"step_seconds":0.0812345,"phase_seconds":{"forward":0.0301234,"backward":0.0501234},)",
        R"("ranks":[)", ranks, "]}\n");
    if (step % 100 == 0)
      text += str(R"({"kind":"eval","split":"val","step":)", step,
                  R"(,"metrics":{"loss":1,"top1":0.5,"top5":0.7}})", "\n");
  }
  Table confusion;
  confusion.name = "confusion: rows are targets, columns predictions";
  for (int i = 0; i < 100; ++i) {
    confusion.rows.push_back("class number " + std::to_string(i));
    confusion.cells.emplace_back(100, 1);
  }
  confusion.columns = confusion.rows;
  add_records(run, text);
  run.evaluations.back().tables = {confusion};
  ContactSheet sheet;
  sheet.samples.assign(
      12, {.picture = "data:image/jpeg;base64," + std::string(4000, 'A'), .name = "a"});
  EXPECT_LT(page_of(run, sheet).size(), 300U << 10);
}

TEST(Page, FilledReplacesEachKeyOnce) {
  EXPECT_EQ(filled("a {{x}} {{y}} {{x}}", {{"x", "{{y}}"}, {"y", "2"}}), "a {{y}} 2 {{y}}");
  EXPECT_ANY_THROW(filled("{{z}}", {{"x", "1"}}));
}

TEST(Comparison, NamesTheKeysThatDiffer) {
  RunRecords first, second;
  first.config = {
      {"train.epochs", "4"}, {"run.name", "a"}, {"data.workers", "2"}, {"old.key", "1"}};
  second.config = {
      {"train.epochs", "8"}, {"run.name", "b"}, {"data.workers", "2"}, {"new.key", ""}};
  const std::vector<Difference> all = config_differences(first, second);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].key + all[0].first + all[0].second, "train.epochs48");
  EXPECT_EQ(all[1].key + all[1].first + all[1].second, "old.key1");
  EXPECT_EQ(all[2].key, "new.key");
}

TEST(Curves, GivesEachUnitAChartAndKeepsTheTasksOrder) {
  RunRecords run;
  for (const int64_t step : {1, 2}) {
    StepWindow window{.step = step};
    window.loss = 2;
    run.steps.push_back(window);
    run.evaluations.push_back(
        {.step = step,
         .split = "val",
         .metrics = {{"loss", 2}, {"zeal", 0.5}, {"error", 30}, {"accuracy", 0.5}, {"worst", 90}}});
    run.evaluations.push_back(
        {.step = step, .split = "test", .metrics = {{"loss", 2}, {"only_test", 1}}});
  }
  run.environment.metrics = {{"loss", ""},
                             {"zeal", "share"},
                             {"error", "degrees"},
                             {"accuracy", "share"},
                             {"worst", "degrees"}};
  const std::vector<LineChart> charts = learning_curves(run);
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[0].series.size(), 2U);
  EXPECT_EQ(charts[1].title, "validation, share");
  EXPECT_EQ(charts[1].series[0].name + charts[1].series[1].name, "zealaccuracy");
  EXPECT_EQ(charts[2].series[0].name + charts[2].series[1].name, "errorworst");
}

}  // namespace
}  // namespace dtrain::report
