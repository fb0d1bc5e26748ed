// The documented format: "Trace Event Format" (JSON object with traceEvents; ph M, X, b/n/e,
// s/f, C).

#include "trace/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "trace/made_events.h"

namespace dtrain::trace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

RankTrace made_rank(int rank, double offset_seconds = 0) {
  RankTrace trace{.rank = rank,
                  .name = "rank " + std::to_string(rank) + ": node, cpu",
                  .began = us(90),
                  .ended = us(300)};
  trace.clock.offset_before = trace.clock.offset_after = offset_seconds;
  trace.tracks = {{.name = "gradients (mpi)",
                   .place = kCommPlace,
                   .events = {operation(127, 140, 800), operation(205, 215, 800)}},
                  {.name = kTrainingThread, .place = kTrainingPlace, .events = two_steps()},
                  {.name = kTrainingThread,
                   .place = kOperatorPlace,
                   .events = {operator_event("aten::conv2d", 106, 110, 3, "layer1.0.conv1"),
                              backward_event("ConvolutionBackward0", 116, 119, 3)}},
                  {.name = kBuckets,
                   .events = {ready(0, 120), sent(0, 121, 800), ready(0, 200), sent(0, 200, 800)}},
                  {.name = "loader 0",
                   .place = kLoaderPlace,
                   .events = {stage("read", 80, 95, 1, 0, 5), stage("read", 95.5, 97.25, 1, 0, 6)}},
                  {.name = kCounters,
                   .events = {{.name = "batches ready",
                               .begin = us(100),
                               .end = us(100),
                               .kind = Kind::kCounter,
                               .a = 3}}}};
  trace.bucket_track = "gradients (mpi)";
  return trace;
}

std::string text_of(const std::vector<RankTrace>& ranks, size_t piece_bytes = 1 << 20,
                    const Facts& facts = {}) {
  std::string text = trace_header(facts);
  for (const RankTrace& rank : ranks) {
    write_rank(
        rank, us(90), rank.rank == 0, [&](std::string_view piece) { text += piece; }, piece_bytes);
  }
  return text + trace_footer();
}

std::vector<json> events_of(const std::string& text, const std::string& phase) {
  const json all = json::parse(text);
  std::vector<json> some;
  for (const json& event : all["traceEvents"]) {
    if (event["ph"] == phase) some.push_back(event);
  }
  return some;
}

TEST(ChromeTrace, IsValidAndNamesProcessesAndThreads) {
  const std::string text = text_of({made_rank(0), made_rank(1)}, 1 << 20, {{"ranks", "2"}});
  const json all = json::parse(text);
  EXPECT_EQ(all["displayTimeUnit"], "ms");
  EXPECT_EQ(all["otherData"]["ranks"], "2");
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const json& event : events_of(text, "M")) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(processes[0], "rank 0: node, cpu");
  EXPECT_EQ(processes[1], "rank 1: node, cpu");
  EXPECT_EQ(threads.size(), 6u)
      << "training, loader and communication of two ranks; buckets and counters are none";
  for (const json& event : all["traceEvents"]) {
    EXPECT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer()) << event;
    if (event["ph"] == "X") {
      EXPECT_TRUE(threads.contains({event["pid"], event["tid"]})) << event;
      EXPECT_GE(event["ts"].get<double>(), 0);
      EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(), 210.0) << event;
    }
  }
}

TEST(ChromeTrace, TimesAreExactMicrosecondsSinceTheOrigin) {
  const std::string text = text_of({made_rank(0)});
  EXPECT_THAT(text, HasSubstr(R"("name":"read","ts":5.500,"dur":1.750)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"step 7","ts":10.000,"dur":80.000)"));
  for (const json& event : events_of(text, "X")) {
    EXPECT_NE(event["args"].value("sample", 0), 5) << "it began before the recording";
  }
}

TEST(ChromeTrace, ClocksOfRanksAreOne) {
  RankTrace ahead = made_rank(1, 2.5);
  const auto shift = static_cast<Time>(2.5e9);
  ahead.began += shift;
  ahead.ended += shift;
  for (TrackEvents& track : ahead.tracks) {
    for (Event& event : track.events) {
      event.begin += shift;
      event.end += shift;
    }
  }
  std::map<int, std::multiset<double>> times;
  for (const json& event : events_of(text_of({made_rank(0), ahead}), "X"))
    times[event["pid"]].insert(event["ts"].get<double>());
  EXPECT_EQ(times[0], times[1]);
  EXPECT_FALSE(times[0].empty());
}

TEST(ChromeTrace, ABucketHasARowABarAndAnArrow) {
  const std::string text = text_of({made_rank(0)});
  const std::vector<json> begun = events_of(text, "b"), sent = events_of(text, "n"),
                          ended = events_of(text, "e");
  ASSERT_EQ(begun.size(), 2u);
  ASSERT_EQ(sent.size(), 2u);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(begun[0]["name"], "bucket 0");
  EXPECT_EQ(begun[0]["cat"], ended[0]["cat"]);
  EXPECT_EQ(begun[0]["id2"], ended[0]["id2"]);
  EXPECT_EQ(begun[0]["ts"], 30.0);
  EXPECT_EQ(sent[0]["ts"], 31.0);
  EXPECT_EQ(ended[0]["ts"], 50.0);
  bool found = false;
  for (const json& event : events_of(text, "X")) {
    EXPECT_NE(event["name"], "all_reduce") << "it is shown as its bucket";
    if (event["name"] != "bucket 0" || event["args"]["step"] != 7) continue;
    found = true;
    EXPECT_EQ(event["args"]["bytes"], 800);
    EXPECT_EQ(event["args"]["waited_us"], 6.0);
  }
  EXPECT_TRUE(found);
}

TEST(ChromeTrace, ArrowsHaveTwoEnds) {
  const std::string text = text_of({made_rank(0), made_rank(1)});
  std::map<std::string, std::pair<int, int>> ends;
  for (const json& event : events_of(text, "s")) ++ends[event["id"]].first;
  for (const json& event : events_of(text, "f")) {
    ++ends[event["id"]].second;
    EXPECT_EQ(event["bp"], "e");
  }
  EXPECT_EQ(ends.size(), 6u)
      << "two buckets and one operator of each rank: ids are of one rank alone";
  for (const auto& [id, both] : ends) EXPECT_EQ(both, std::pair(1, 1)) << id;
}

TEST(ChromeTrace, NamesOfOthersAreEscaped) {
  RankTrace trace = made_rank(0);
  trace.name = "rank 0: a\"b\\c\n\x01</script>\xff";
  trace.tracks[2].events[0].name = "op\"erator\t\xc3";
  trace.tracks[2].events[0].detail = "mod\"ule";
  const std::string text = text_of({trace}, 1 << 20, {{"net\"work", "x\ny"}});
  const json all = json::parse(text);  // throws where it is not valid
  EXPECT_EQ(all["otherData"]["net\"work"], "x\ny");
  EXPECT_EQ(all["traceEvents"][0]["args"]["name"].get<std::string>().substr(0, 14),
            "rank 0: a\"b\\c\n");
  EXPECT_EQ(text.find('\xff'), std::string::npos);
  bool found = false;
  for (const json& event : events_of(text, "X"))
    found |= event["args"].value("module", "") == "mod\"ule";
  EXPECT_TRUE(found);
}

TEST(ChromeTrace, PiecesAreSmallAndMakeTheSameText) {
  const std::string whole = text_of({made_rank(0), made_rank(1)});
  EXPECT_EQ(text_of({made_rank(0), made_rank(1)}, 300), whole);
  size_t largest = 0;
  write_rank(
      made_rank(0), us(90), true,
      [&](std::string_view piece) { largest = std::max(largest, piece.size()); }, 300);
  EXPECT_LT(largest, 800u) << "one line more than asked for";
}

TEST(ChromeTrace, CountersAreValues) {
  const std::vector<json> counters = events_of(text_of({made_rank(0)}), "C");
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0]["name"], "batches ready");
  EXPECT_EQ(counters[0]["args"]["value"], 3);
}

TEST(ChromeTrace, ARankThatRecordedNothingIsAProcess) {
  const RankTrace empty{.rank = 0, .name = "rank 0"};
  EXPECT_EQ(json::parse(text_of({empty}))["traceEvents"].size(), 2u);
}

}  // namespace
}  // namespace dtrain::trace
