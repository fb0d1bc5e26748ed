#include "monitoring/jsonl_sink.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "monitoring/append_file.h"
#include "monitoring/sample_stats.h"
#include "os/file_system.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using measure::Quantity;
using nlohmann::json;
using testing::sample_eval;
using testing::sample_step;

std::vector<json> records(const std::filesystem::path& file) {
  std::vector<json> all;
  for (const std::string& line : split(read_text(file), '\n')) {
    if (!line.empty()) all.push_back(json::parse(line));
  }
  return all;
}

TEST(JsonLines, EveryKindOfRecord) {
  const dtrain::testing::TempDir folder;
  {
    const auto sink = make_jsonl_sink(folder / "m.jsonl", 0);
    sink->state(LiveState::kTraining);
    StepStats s = sample_step();
    sink->record(s);
    s.logging = false;
    s.step = 121;
    sink->record(s);
    sink->record(sample_eval());
    sink->checkpoint_saved(121, 0.5);
    sink->end({.exit_code = 75, .reason = "stopped on request"});
    sink->end({.state = LiveState::kFailed,
               .exit_code = 65,
               .reason = "d.h5 is \xff",
               .failure = R"({"rank":0,"culprit":null})"});
  }
  const std::vector<json> all = records(folder / "m.jsonl");
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0]["kind"], "state");
  EXPECT_FALSE(all[0].contains("reason"));
  EXPECT_EQ(all[0]["step"], 0);
  EXPECT_EQ(all[1]["kind"], "step");
  EXPECT_EQ(all[1]["step"], 120);
  EXPECT_EQ(all[1]["loss"], 0.1234);
  EXPECT_EQ(all[1]["phase_seconds"]["backward"], 0.1502);
  EXPECT_EQ(all[1]["ledger"], "fedcba9876543210");
  ASSERT_EQ(all[1]["ranks"].size(), 2u);
  EXPECT_EQ(all[1]["ranks"][1]["rank"], 1);
  EXPECT_EQ(all[1]["ranks"][1]["phase_seconds"]["data_wait"], 0.03);
  EXPECT_EQ(all[1]["ranks"][1]["loader"], json::parse(R"({"queue": 0.5})"))
      << "what was not measured is left out";
  EXPECT_FALSE(all[1]["ranks"][1].contains("gpu"));
  EXPECT_EQ(all[1]["ranks"][1]["bucket_seconds"], json::parse("[0.01, 0.05, 0.11]"));
  EXPECT_FALSE(all[1]["ranks"][0].contains("bucket_seconds"));
  EXPECT_EQ(all[1]["slowest"]["step"], 117);
  EXPECT_EQ(all[1]["slowest"]["rank"], 1);
  EXPECT_EQ(all[1]["slowest"]["step_seconds"], 0.625);
  EXPECT_EQ(all[1]["slowest"]["phase_seconds"]["data_wait"], 0.4);
  EXPECT_NEAR(all[1]["slowest"]["other_seconds"].get<double>(), 0.015, 1e-9);
  EXPECT_EQ(all[2]["kind"], "eval");
  EXPECT_EQ(all[2]["metrics"]["mae_yaw"], 7.1);
  EXPECT_EQ(all[3]["kind"], "checkpoint");
  EXPECT_EQ(all[3]["step"], 121);
  EXPECT_EQ(all[4]["state"], "finished");
  EXPECT_EQ(all[4]["step"], 121);
  EXPECT_GT(all[4]["time"].get<double>(), 1.7e9);
  EXPECT_EQ(all[4]["exit_code"], 75);
  EXPECT_EQ(all[4]["reason"], "stopped on request");
  EXPECT_FALSE(all[4].contains("failure"));
  EXPECT_EQ(all[5]["state"], "failed");
  EXPECT_EQ(all[5]["exit_code"], 65);
  EXPECT_EQ(all[5]["reason"], "d.h5 is \uFFFD");
  EXPECT_EQ(all[5]["failure"], json::parse(R"({"rank":0,"culprit":null})"));
}

TEST(JsonLines, ARankHasWhatItsLoaderItsProcessAndItsHostDid) {
  const dtrain::testing::TempDir folder;
  const auto sink = make_jsonl_sink(folder / "m.jsonl", 0);
  StepStats s = sample_step();
  s.ranks = {{.rank = 0,
              .values = {{Quantity::kSamples, 8},
                         {Quantity::kReadSeconds, 0.5},
                         {Quantity::kDecodeSeconds, 0.25},
                         {Quantity::kAugmentSeconds, 0},
                         {Quantity::kFewSamples, 2},
                         {Quantity::kFewSampleSeconds, 0.125},
                         {Quantity::kManySampleSeconds, 0.0625},
                         {Quantity::kLoaderWait, 0.125},
                         {Quantity::kLoaderFull, 0},
                         {Quantity::kCpu, 0.75},
                         {Quantity::kComputeCpu, 0.5},
                         {Quantity::kCommDelay, 0.125},
                         {Quantity::kThrottled, 0.0625},
                         {Quantity::kDiskBytes, 4096},
                         {Quantity::kMajorFaults, 0},
                         {Quantity::kHostCores, 4},
                         {Quantity::kHostBusy, 2},
                         {Quantity::kHostSteal, 0.5},
                         {Quantity::kSwappedIn, 0},
                         {Quantity::kReadAgain, 8192},
                         {Quantity::kFreeMemory, 1e9},
                         {Quantity::kLinkWidth, 8},
                         {Quantity::kCardWidth, 16},
                         {Quantity::kLinkGeneration, 4}}},
             {.rank = 1, .values = {{Quantity::kSamples, 8}}},
             {.rank = 2,
              .times = {.launch = 0.25},
              .values = {{Quantity::kGpuUtilization, 0.5},
                         {Quantity::kGpuPower, 300},
                         {Quantity::kGpuEnergy, 30},
                         {Quantity::kGpuTemperature, 70},
                         {Quantity::kSmClock, 1.5e9},
                         {Quantity::kSlowedByPower, 0.75},
                         {Quantity::kSlowedByHeat, 0}}}};
  sink->record(s);
  const json ranks = records(folder / "m.jsonl").at(0)["ranks"];
  EXPECT_EQ(
      ranks[0]["loader"],
      json::parse(
          R"({"samples": 8.0, "read_seconds": 0.5, "decode_seconds": 0.25, "augment_seconds": 0.0,
                            "few_sample_seconds": 0.125, "many_sample_seconds": 0.0625,
                            "wait_seconds": 0.125, "full_seconds": 0.0})"));
  EXPECT_EQ(
      ranks[0]["cpu"],
      json::parse(R"({"cpu_seconds": 0.75, "compute_seconds": 0.5, "comm_delay_seconds": 0.125,
                            "throttled_seconds": 0.0625})"));
  EXPECT_FALSE(ranks[0].contains("launch_seconds"));
  EXPECT_EQ(ranks[2]["launch_seconds"], 0.25);
  EXPECT_EQ(ranks[0]["disk_bytes"], 4096);
  EXPECT_EQ(ranks[0]["major_faults"], 0);
  EXPECT_EQ(
      ranks[0]["host"],
      json::parse(
          R"({"cores": 4.0, "busy_seconds": 2.0, "steal_seconds": 0.5, "swapped_in_bytes": 0.0,
                            "read_again_bytes": 8192.0, "free_memory_bytes": 1e9})"));
  EXPECT_EQ(ranks[0]["link"], json::parse(R"({"width": 8, "card_width": 16, "generation": 4})"));
  EXPECT_TRUE(ranks[0]["link"]["width"].is_number_integer());
  EXPECT_FALSE(ranks[0].contains("gpu"));
  EXPECT_EQ(ranks[2]["gpu"],
            json::parse(R"({"utilization": 0.5, "power_watts": 300.0, "energy_joules": 30.0,
                                             "temperature_celsius": 70.0, "sm_clock_hertz": 1.5e9,
                                             "slowed_by_power": 0.75, "slowed_by_heat": 0.0})"));
  EXPECT_EQ(ranks[1]["loader"], json::parse(R"({"samples": 8.0})"))
      << "no sample was begun with few readers";
  for (const char* name : {"cpu", "host", "link", "disk_bytes", "major_faults"})
    EXPECT_FALSE(ranks[1].contains(name));
}

TEST(JsonLines, AnEvaluationHasItsTables) {
  const dtrain::testing::TempDir folder;
  {
    const auto sink = make_jsonl_sink(folder / "m.jsonl", 0);
    EvalStats stats = sample_eval();
    stats.tables = {
        {"by class", {"precision", "samples"}, {"ant", "bee"}, {{0.5, 3}, {std::nan(""), 0}}},
        {"confusion", {"ant", "bee"}, {"ant", "bee"}, {{2, 1}, {0, 0}}}};
    sink->record(stats);
    stats.tables.clear();
    sink->record(stats);
  }
  const std::vector<json> all = records(folder / "m.jsonl");
  EXPECT_EQ(all[0]["tables"], json::parse(R"([
    {"name": "by class", "columns": ["precision", "samples"], "rows": ["ant", "bee"], "cells": [[0.5, 3], [null, 0]]},
    {"name": "confusion", "columns": ["ant", "bee"], "rows": ["ant", "bee"], "cells": [[2, 1], [0, 0]]}])"));
  EXPECT_FALSE(all[1].contains("tables"));
}

TEST(JsonLines, StaysJsonWhenNumbersAreNotFinite) {
  const dtrain::testing::TempDir folder;
  {
    const auto sink = make_jsonl_sink(folder / "m.jsonl", 0);
    StepStats s = sample_step();
    s.loss = std::numeric_limits<double>::quiet_NaN();
    s.grad_norm = -std::numeric_limits<double>::infinity();
    sink->record(s);
    EvalStats evaluation;
    evaluation.split = "not UTF-8: \xff";
    sink->record(evaluation);
  }
  const std::vector<json> all = records(folder / "m.jsonl");
  EXPECT_TRUE(all[0]["loss"].is_null());
  EXPECT_FALSE(all[0].contains("loss_text"));
  EXPECT_TRUE(all[0]["grad_norm"].is_null());
  EXPECT_EQ(all[0]["grad_norm_text"], "-inf");
}

TEST(JsonLines, AResumeRemovesLaterRecordsAndALineThatWasCutShort) {
  const dtrain::testing::TempDir folder;
  const auto file = folder / "m.jsonl";
  std::ofstream(file) << R"({"kind":"step","step":10,"loss":1})"
                         "\n"
                      << R"({"kind":"eval","step":20})"
                         "\n"
                      << R"({"kind":"step","step":30})"
                         "\n"
                      << R"({"kind":"step","step":2)";  // killed here
  make_jsonl_sink(file, 20)->state(LiveState::kStarting);
  const std::vector<json> all = records(file);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(read_text(file).rfind(R"({"kind":"step","step":10,"loss":1})"
                                  "\n"
                                  R"({"kind":"eval","step":20})"
                                  "\n",
                                  0),
            0u)
      << "kept lines stay byte for byte";
  EXPECT_EQ(all[2]["kind"], "state");
  EXPECT_EQ(all[2]["step"], 20);
}

std::string record_of(int64_t step, size_t bytes = 0) {
  return str(R"({"kind":"step","step":)", step, R"(,"padding":")", std::string(bytes, 'x'),
             "\"}\n");
}

TEST(JsonLines, AResumeRemovesManyRecordsAndLongOnes) {
  const dtrain::testing::TempDir folder;
  const auto file = folder / "m.jsonl";
  const std::string kept = record_of(10) + record_of(20, 2 << 20);
  std::string all = kept;
  for (int64_t step = 21; step <= 2000; ++step) all += record_of(step, 1000);
  all += record_of(2001, 5 << 20);  // longer than what is read at a time
  const auto resumed = [&](int64_t step) {
    std::ofstream(file, std::ios::binary)
        << all << "{\"kind\":" << std::string(3 << 20, ' ');  // cut short
    const auto sink = make_jsonl_sink(file, step);
    return read_text(file);
  };
  EXPECT_TRUE(resumed(20) == kept);
  EXPECT_TRUE(resumed(19) == record_of(10));
  EXPECT_TRUE(resumed(2001) == all);
  EXPECT_EQ(resumed(9), "");
}

TEST(JsonLines, AResumeReadsOnlyTheEndOfALongFile) {
  const dtrain::testing::TempDir folder;
  const auto file = folder / "m.jsonl";
  constexpr uintmax_t kHole = uintmax_t{256} << 20;  // which takes no room on a disk
  std::ofstream(file) << "";
  std::filesystem::resize_file(file, kHole);
  const std::string kept = "\n" + record_of(20);
  std::ofstream(file, std::ios::app) << kept << record_of(30);
  rusage before{}, after{};
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &before), 0);
  make_jsonl_sink(file, 20);
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &after), 0);
  EXPECT_EQ(std::filesystem::file_size(file), kHole + kept.size());
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 50 << 10) << "KiB";
}

TEST(JsonLines, AVerdictHasTheSplitOfCommunicationWhereItWasMeasured) {
  const dtrain::testing::TempDir folder;
  const auto file = folder / "m.jsonl";
  const auto sink = make_jsonl_sink(file, 0);
  VerdictRecord verdict{.step = 3, .text = "verdict: late rank 1"};
  sink->verdict(verdict);
  verdict.communication = {
      .late = 0.5, .latency = 0.25, .bandwidth = 0.125, .not_overlapped = 2, .other = 1};
  sink->verdict(verdict);
  const std::vector<json> all = records(file);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].contains("communication")) << "one rank";
  EXPECT_EQ(
      all[1]["communication"],
      json::parse(R"({"late_seconds": 0.5, "latency_seconds": 0.25, "bandwidth_seconds": 0.125,
                            "not_overlapped_seconds": 2.0, "other_seconds": 1.0})"));
}

TEST(JsonLines, AVerdictHasWhatWasMeasuredBeforeTraining) {
  const dtrain::testing::TempDir folder;
  const auto sink = make_jsonl_sink(folder / "m.jsonl", 0);
  VerdictRecord verdict{.step = 3};
  sink->verdict(verdict);
  verdict.probes.cached_step = 0.0082;
  sink->verdict(verdict);
  verdict.probes = {.latency = 25e-6, .seconds_per_byte = 3e-10};
  sink->verdict(verdict);
  const std::vector<json> all = records(folder / "m.jsonl");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[0].contains("headroom"));
  EXPECT_FALSE(all[0].contains("all_reduce"));
  EXPECT_EQ(all[1]["headroom"], json::parse(R"({"step_seconds": 0.0082})"));
  EXPECT_FALSE(all[1].contains("all_reduce")) << "one rank";
  EXPECT_EQ(all[2]["all_reduce"],
            json::parse(R"({"latency_seconds": 25e-6, "seconds_per_byte": 3e-10})"));
}

TEST(JsonLines, AFullDiskIsLoggedOnceAndTrainingContinues) {
  ::testing::internal::CaptureStderr();
  {
    const auto sink = make_jsonl_sink("/dev/full", 0);
    sink->record(sample_step());
    sink->record(sample_step());
    sink->record(sample_eval());
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cannot write /dev/full: No space left on device"), std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(JsonLines, AMissingFolderIsLoggedOnce) {
  const dtrain::testing::TempDir folder;
  ::testing::internal::CaptureStderr();
  const auto sink = make_jsonl_sink(folder / "gone" / "m.jsonl", 0);
  sink->record(sample_step());
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cannot open"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(AppendFile, CutsOffARecordThatDidNotFit) {
  const dtrain::testing::TempDir folder;
  AppendFile file(folder / "f");
  const std::string whole(4000, 'a');
  EXPECT_TRUE(file.append(whole));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  ::testing::internal::CaptureStderr();
  const bool fitted = file.append(std::string(200, 'b'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("File too large"), std::string::npos);
  EXPECT_FALSE(fitted);
  EXPECT_EQ(read_text(folder / "f"), whole);
  EXPECT_TRUE(file.append("again"));
  EXPECT_EQ(read_text(folder / "f"), whole + "again");
}

}  // namespace
}  // namespace dtrain::monitoring
