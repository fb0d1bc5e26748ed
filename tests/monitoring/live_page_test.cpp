#include "monitoring/live_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/log.h"
#include "monitoring/sample_stats.h"
#include "monitoring/signpost_page.h"
#include "monitoring/thinned_history.h"
#include "support/fake_clock.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using dtrain::testing::FakeClock;
using nlohmann::json;
using testing::sample_eval;
using testing::sample_step;

TEST(ThinnedHistory, KeepsEverythingUntilItIsFull) {
  ThinnedHistory<int> history(4);
  for (int i = 1; i <= 4; ++i) history.add(i * 10, i);
  EXPECT_EQ(history.since(0), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(history.since(20), (std::vector<int>{3, 4}));
  EXPECT_EQ(history.since(40), std::vector<int>{});
  EXPECT_TRUE(history.continues(10));
}

TEST(ThinnedHistory, DropsEverySecondEntryWhenItIsFull) {
  ThinnedHistory<int> history(4);
  for (int i = 1; i <= 5; ++i) history.add(i, i);
  EXPECT_EQ(history.since(0), (std::vector<int>{1, 3, 5}));
  EXPECT_FALSE(history.continues(4)) << "a reader that has 1, 2, 3 and 4 starts again";
  EXPECT_TRUE(history.continues(5));
  for (int i = 6; i <= 9; ++i) history.add(i, i);
  EXPECT_EQ(history.since(0), (std::vector<int>{1, 5, 9}));
}

TEST(ThinnedHistory, IsEvenAndBoundedForever) {
  for (const size_t limit : {2, 5, 64}) {
    ThinnedHistory<int> history(limit);
    for (int i = 0; i < 100000; ++i) {
      history.add(i + 1, i);
      ASSERT_LE(history.size(), limit);
    }
    const std::vector<int> kept = history.since(0);
    ASSERT_GE(kept.size() * 2, limit);
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_EQ(kept[i], static_cast<int>(i) * kept[1]) << limit;
  }
}

// A browser: what it has after each visit.
class Reader {
 public:
  explicit Reader(const LivePage& page) {
    for (const Page& p : page.pages()) {
      if (p.path == "/state.json") body_ = p.body;
    }
  }
  json visit() {
    text = body_({{"since", str(since_)}, {"line", str(line_)}});
    const json answer = json::parse(text);
    if (answer["whole"]) steps.clear();
    for (const json& point : answer["points"]) steps.push_back(point[0].get<int64_t>());
    since_ = answer["number"];
    if (!answer["log"].empty()) line_ = answer["log"].back()[0];
    return answer;
  }

  std::vector<int64_t> steps;
  std::string text;

 private:
  std::function<std::string(const Query&)> body_;
  int64_t since_ = 0, line_ = 0;
};

json column(const json& answer, const json& point, const std::string& name) {
  for (size_t i = 0; i < answer["columns"].size(); ++i) {
    if (answer["columns"][i] == name) return point[i];
  }
  return "no such column";
}

TEST(LivePage, ServesItsFilesAndNothingFromElsewhere) {
  const LivePage page("r", {});
  std::set<std::string> paths;
  for (const Page& p : page.pages()) {
    paths.insert(p.path);
    const std::string body = p.body({});
    EXPECT_GT(body.size(), 300u) << p.path;
    size_t links = 0;
    for (size_t at = body.find("://"); at != std::string::npos; at = body.find("://", at + 1))
      ++links;
    EXPECT_EQ(links, p.path == "/live.js" ? 1u : 0u) << p.path << ": the name of SVG alone";
  }
  EXPECT_EQ(paths, (std::set<std::string>{"/", "/live.css", "/live.js", "/state.json"}));
}

TEST(LivePage, ShowsWhereTheRunIs) {
  const FakeClock clock;
  LivePage page("first", {{"task", "headpose"}}, clock);
  Reader reader(page);
  const json before = reader.visit();
  EXPECT_EQ(before["state"], "starting");
  EXPECT_EQ(before["newest"], nullptr);
  EXPECT_EQ(before["facts"], json::parse(R"([["task", "headpose"]])"));

  clock.advance(std::chrono::seconds(1));
  page.places({{"node-a", "cpu", 4, 2}, {"node-b", "cpu", 4, 2}});
  page.state(LiveState::kTraining);
  StepStats step = sample_step();
  step.ranks[0].times.phases[0] = 0.125;
  page.record(step);
  page.record(sample_eval());
  page.checkpoint_saved(120, 0.5);
  VerdictRecord verdict{.step = 120, .text = "verdict: compute-bound", .also = {"late rank"}};
  verdict.communication.late = 0.0031;
  verdict.not_measured = {"copy: no GPU clock", "steal"};
  page.verdict(verdict);
  const json after = reader.visit();
  EXPECT_EQ(after["run"], "first");
  EXPECT_EQ(after["state"], "training");
  EXPECT_EQ(after["step"], 120);
  EXPECT_EQ(after["total_steps"], 4078);
  EXPECT_EQ(after["eta_seconds"], 3720);
  EXPECT_EQ(after["verdict"],
            "verdict: compute-bound\nlate rank\ncommunication: 3.1 ms per step = late rank 3.1\n"
            "not measured: copy: no GPU clock; steal");
  EXPECT_EQ(after["checkpoint"]["step"], 120);
  EXPECT_EQ(after["places"][1], json::parse(R"(["node-b", "cpu", 4, 2])"));
  EXPECT_EQ(after["ranks"][0]["phase_seconds"][0], 0.125);
  ASSERT_EQ(after["ranks"][0]["values"].size(), after["quantities"].size());
  for (size_t i = 0; i < after["quantities"].size(); ++i) {
    if (after["quantities"][i][0] != "power") continue;
    EXPECT_EQ(after["quantities"][i][1], "W");
    EXPECT_EQ(after["ranks"][0]["values"][i], nullptr) << "unknown";
  }
  EXPECT_EQ(after["evaluation"]["metrics"][1], json::parse(R"(["mae", 6.21, "degrees"])"));
  ASSERT_EQ(after["points"].size(), 1u);
  EXPECT_EQ(after["newest"], after["points"][0]);
  EXPECT_EQ(column(after, after["newest"], "loss"), 0.1234);
  EXPECT_EQ(after["newest"].size(), after["columns"].size() + after["phases"].size());
  EXPECT_EQ(after["newest"].back(), 0) << "the last phase";
}

// Other steps do not know it.
TEST(LivePage, TheMemoryOfTheDeviceStaysUntilTheNextLoggingStep) {
  LivePage page("r", {});
  StepStats step = sample_step();
  step.values[measure::Quantity::kDeviceMemory] = 24e9;
  page.record(step);
  page.record(StepStats{.step = 121});
  EXPECT_EQ(Reader(page).visit()["memory_total"], 24e9);
}

TEST(LivePage, SendsEachThingOnce) {
  const FakeClock clock;
  LivePage page("r", {}, clock);
  Reader reader(page);
  page.places({{"node-a", "cpu", 1, 1}});
  page.log_line("one");
  StepStats s = sample_step();
  for (s.step = 1; s.step <= 3; ++s.step) page.record(s);
  json answer = reader.visit();
  EXPECT_EQ(answer["points"].size(), 3u);
  EXPECT_EQ(answer["places"].size(), 1u);
  EXPECT_EQ(answer["log"].size(), 1u);
  page.record(s);
  page.record(sample_eval());
  page.log_line("two");
  answer = reader.visit();
  EXPECT_FALSE(answer["whole"].get<bool>());
  EXPECT_EQ(answer["points"].size(), 1u);
  EXPECT_EQ(answer["evaluations"].size(), 1u);
  EXPECT_EQ(answer["places"].size(), 0u) << "as before";
  ASSERT_EQ(answer["log"].size(), 1u);
  EXPECT_EQ(answer["log"][0][2], "two");
  answer = reader.visit();
  EXPECT_EQ(answer["points"].size() + answer["evaluations"].size() + answer["log"].size(), 0u);
  EXPECT_EQ(reader.steps, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_TRUE(Reader(page).visit()["whole"].get<bool>()) << "another browser receives all of it";
}

TEST(LivePage, NumbersFromAnotherProcessMeanStartAgain) {
  LivePage page("r", {});
  page.record(sample_step());
  const auto body = page.pages().back().body;
  for (const char* since : {"1000", "-3", "x", "", "99999999999999999999"}) {
    const json answer = json::parse(body({{"since", since}}));
    EXPECT_TRUE(answer["whole"].get<bool>()) << since;
    EXPECT_EQ(answer["points"].size(), 1u) << since;
  }
}

TEST(LivePage, AStepBetweenLoggingStepsMovesThePositionAlone) {
  const FakeClock clock;
  LivePage page("r", {}, clock);
  StepStats s = sample_step();
  page.record(s);
  s.logging = false;
  s.loss = s.eta_seconds = StepStats::kUnknown;
  s.step = 121;
  page.record(s);
  const json answer = Reader(page).visit();
  EXPECT_EQ(answer["step"], 121);
  EXPECT_EQ(answer["eta_seconds"], 3720) << "as it was when it was known";
  EXPECT_EQ(answer["points"].size(), 1u);
}

// However long a run is: in memory, in the browser, and in each answer.
TEST(LivePage, IsBounded) {
  const FakeClock clock;
  LivePage page("r", {}, clock);
  Reader reader(page);
  StepStats s = sample_step();
  EvalStats e = sample_eval();
  e.tables.push_back(Table{});
  for (s.step = 1; s.step <= 100000; ++s.step) {
    s.loss = 1.0 / 3 + 1.0 / static_cast<double>(s.step);
    page.record(s);
    if (s.step % 10 == 0) page.record(e);
    page.log_line(std::string(10000, 'x'));
    if (s.step % 997 == 0) {
      reader.visit();
      ASSERT_LE(reader.steps.size(), LivePage::kPoints);
      clock.advance(std::chrono::seconds(1));
    }
  }
  const json all = Reader(page).visit();
  EXPECT_LE(all["points"].size(), LivePage::kPoints);
  EXPECT_GE(all["points"].size(), LivePage::kPoints / 2);
  EXPECT_LE(all["evaluations"].size(), LivePage::kEvaluations);
  EXPECT_EQ(all["log"].size(), LivePage::kLogLines);
  EXPECT_LE(all["log"][0][2].get<std::string>().size(), LivePage::kLineBytes + 4);
  EXPECT_EQ(column(all, all["newest"], "step"), 100000);
  EXPECT_LT(all.dump().size(), 400000u);
  const json next = reader.visit();
  EXPECT_EQ(reader.steps, [&] {
    std::vector<int64_t> steps;
    for (const json& point : all["points"]) steps.push_back(point[0]);
    return steps;
  }()) << "what came piece by piece is what comes at once";
  EXPECT_FALSE(next["newest"].is_null());
}

TEST(LivePage, AnyNameIsValidJson) {
  const std::string name = "</script><b>\"r\"\\ \x01\xff\n\xe2\x80\xa8";
  LivePage page(name, {{name, name}});
  page.places({{name, name, 1, 1}});
  page.verdict({.text = name});
  page.log_line(name);
  EvalStats e = sample_eval();
  e.metrics = {{name, 1.0}};
  page.record(e);
  const json answer = Reader(page).visit();
  const std::string shown = answer["run"];
  EXPECT_EQ(shown, "</script><b>\"r\"\\ \x01\xef\xbf\xbd\n\xe2\x80\xa8")
      << "what is no UTF-8 is replaced";
  EXPECT_EQ(answer["facts"][0][1], shown);
  EXPECT_EQ(answer["places"][0][0], shown);
  EXPECT_EQ(answer["verdict"], shown);
  EXPECT_EQ(answer["log"][0][2], shown);
  EXPECT_EQ(answer["evaluations"][0]["metrics"][0][0], shown);
}

TEST(LivePage, ALongLineIsCutBetweenCharacters) {
  LivePage page("r", {});
  std::string line;
  while (line.size() < 2 * LivePage::kLineBytes) line += "\xe2\x82\xac";  // three bytes each
  page.log_line(line);
  const std::string shown = Reader(page).visit()["log"][0][2];
  EXPECT_TRUE(shown.ends_with("\xe2\x82\xac ...")) << shown.substr(shown.size() - 10);
  EXPECT_EQ(shown.find("\xef\xbf\xbd"), std::string::npos) << "no half character";
}

TEST(LivePage, NumbersThatJsonLacksAreNullOrText) {
  LivePage page("r", {});
  StepStats s = sample_step();
  s.loss = std::numeric_limits<double>::quiet_NaN();
  s.grad_norm = std::numeric_limits<double>::infinity();
  s.learning_rate = -std::numeric_limits<double>::infinity();
  page.record(s);
  const json answer = Reader(page).visit();
  EXPECT_EQ(column(answer, answer["newest"], "loss"), nullptr);
  EXPECT_EQ(column(answer, answer["newest"], "grad_norm"), "inf");
  EXPECT_EQ(column(answer, answer["newest"], "learning_rate"), "-inf");
}

TEST(LivePage, ManyBrowsersAtOnceCostOneConversion) {
  const FakeClock clock;
  LivePage page("r", {}, clock);
  Reader first(page), second(page), third(page);
  first.visit();
  page.state(LiveState::kTraining);
  EXPECT_EQ(second.visit()["state"], "starting") << "the same text";
  clock.advance(std::chrono::milliseconds(250));
  EXPECT_EQ(third.visit()["state"], "training");
}

TEST(LivePage, TheHistoryOfAnEarlierProcessComesFirst) {
  LivePage page("r", {});
  StepStats s = sample_step();
  for (s.step = 1; s.step <= 3; ++s.step) page.earlier(s, 1000.0 + static_cast<double>(s.step));
  page.earlier(sample_eval(), 1003.5);
  page.record(s);
  Reader reader(page);
  const json answer = reader.visit();
  EXPECT_EQ(reader.steps, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(answer["points"][1][1], 1002);
  EXPECT_EQ(answer["evaluations"][0]["time"], 1003.5);
}

TEST(LivePage, ReceivesTheLinesOfTheLog) {
  LivePage page("r", {});
  log::set_rank(0, 1);
  ::testing::internal::CaptureStderr();
  {
    const log::LogTap tap([&](std::string_view line) { page.log_line(line); });
    log::plain("a step line");
    log::warning("a \x1b[31mname");
    log::to_file("a line for the file");
  }
  log::plain("not for the page");
  ::testing::internal::GetCapturedStderr();
  const json lines = Reader(page).visit()["log"];
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0][2], "a step line");
  EXPECT_EQ(lines[1][2], "warning: a \\x1b[31mname");
  EXPECT_EQ(lines[2][2], "a line for the file");
}

// The training thread, the server's thread and threads that log, at full speed (the tsan preset
// watches). Every logging step arrives in its order, and the training thread is not held up.
TEST(LivePage, TheTrainingThreadDoesNotWaitForReaders) {
  const FakeClock clock;
  auto page = std::make_unique<LivePage>("r", LivePage::Facts{}, clock);
  std::atomic<bool> stop{false};
  std::jthread logger([&] {
    for (int i = 0; !stop; ++i) {
      page->log_line(str("line ", i));
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  std::atomic<int64_t> visits{0};
  std::jthread server([&] {
    Reader reader(*page);
    while (!stop) {
      const json answer = reader.visit();
      ASSERT_TRUE(std::is_sorted(reader.steps.begin(), reader.steps.end()));
      clock.advance(std::chrono::milliseconds(50));  // an answer is made again after 200 ms
      ++visits;
    }
  });
  while (visits == 0 && !HasFailure()) std::this_thread::yield();
  constexpr int64_t kSteps = 100000;
  StepStats s = sample_step();
  const auto begin = std::chrono::steady_clock::now();
  for (s.step = 1; s.step <= kSteps; ++s.step) {
    s.logging = s.step % 10 == 0;
    page->record(s);
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  page->state(LiveState::kFinished);  // hands over what is left
  stop = true;
  logger.join();
  server.join();
  Reader reader(*page);
  clock.advance(std::chrono::seconds(1));
  const json answer = reader.visit();
  EXPECT_EQ(answer["step"], kSteps);
  EXPECT_EQ(column(answer, answer["newest"], "step"), kSteps);
  EXPECT_EQ(answer["number"], kSteps / 10);
  RecordProperty("microseconds_per_step", str(spent.count() / kSteps));
  EXPECT_LT(spent.count() / kSteps, 50)
      << "microseconds per step; on an idle machine it is below 1";
}

TEST(LivePage, ItsPagesOutliveIt) {
  std::vector<Page> pages;
  {
    LivePage page("gone", {});
    pages = page.pages();
  }
  EXPECT_EQ(json::parse(pages.back().body({}))["run"], "gone");
}

TEST(SignpostPage, NamesThePageOfTheRun) {
  SignpostPage signpost("<b>r</b>", 3);
  const Page page = signpost.page();
  EXPECT_EQ(page.path, "/");
  EXPECT_NE(page.body({}).find("rank 3 of &lt;b&gt;r&lt;/b&gt;"), std::string::npos)
      << page.body({});
  EXPECT_NE(page.body({}).find("not known yet"), std::string::npos);
  signpost.point_to("node-a:9500");
  EXPECT_NE(page.body({}).find("<a href=\"http://node-a:9500/\">node-a:9500</a>"),
            std::string::npos)
      << page.body({});
  signpost.point_to("");
  EXPECT_NE(page.body({}).find("no endpoint"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::monitoring
