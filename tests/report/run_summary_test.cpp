#include "report/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "os/file_lock.h"
#include "report/read_run.h"
#include "run_folder.h"
#include "support/expect_error.h"

namespace dtrain::report {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;
using testing::RunFolder;
namespace fs = std::filesystem;

TEST(RunSummary, OfAWholeRun) {
  const RunFolder run;
  run.whole_run();
  const RunSummary summary = summarize(run.path());
  EXPECT_EQ(summary.problem, "");
  EXPECT_EQ(summary.state, RunState::kFinished);
  EXPECT_EQ(summary.task, "headpose");
  EXPECT_EQ(summary.epochs, 4);
  EXPECT_EQ(summary.planned_epochs, 4);
  EXPECT_EQ(summary.step, 400);
  EXPECT_DOUBLE_EQ(summary.best, 6);
  EXPECT_NEAR(summary.samples_per_second, 335, 6);
  EXPECT_DOUBLE_EQ(summary.last_time, 1401);
}

TEST(RunSummary, AgreesWithTheWholeReading) {
  const RunFolder run;
  run.whole_run();
  run.write("checkpoints/step_00000400/state.json",
            R"({"metric":"mae","best":4.5,"best_step":350})");
  EXPECT_DOUBLE_EQ(summarize(run.path()).best, read_run(run.path()).best_value);
  EXPECT_EQ(summarize(run.path()).state, read_run(run.path()).state);
}

TEST(RunSummary, OfAnOlderRunReadsItsConfig) {
  const RunFolder run;
  run.whole_run();
  run.write("environment.json", R"({"world_size":2})");
  const RunSummary summary = summarize(run.path());
  EXPECT_EQ(summary.task, "headpose");
  EXPECT_EQ(summary.planned_epochs, 4);
  EXPECT_EQ(summary.epochs, 4) << "it is finished";
}

TEST(RunSummary, ReadsOnlyTheEndsOfALongRun) {
  const RunFolder run;
  run.environment();
  std::string text;
  for (int64_t step = 1; step <= 60000; ++step) {
    text += str(R"({"kind":"step","time":)", 1000 + step, R"(,"step":)", step,
                R"(,"epoch":1,"loss":1,"samples_per_second":100})", "\n");
  }
  run.write("metrics.jsonl", text);
  ASSERT_GT(fs::file_size(run.path() / "metrics.jsonl"), 4U << 20);
  const RunSummary summary = summarize(run.path());
  EXPECT_EQ(summary.step, 60000);
  EXPECT_DOUBLE_EQ(summary.samples_per_second, 100);
  EXPECT_LT(summary.bytes_read, 300 << 10);
}

TEST(RunSummary, TheSpeedIsThatOfSixteenRecordsHoweverManyRanksTheyHave) {
  for (const size_t bytes : {size_t{10} << 10, size_t{90} << 10}) {  // of 8 ranks, and of 64
    const RunFolder run;
    run.environment();
    for (int64_t step = 1; step <= 40; ++step) {
      run.step(step, 1, step == 40 ? 10 : 100, str(R"(,"ranks":")", std::string(bytes, 'x'), "\""));
    }
    run.evaluation(40, 5);
    run.record(R"({"kind":"state","time":1041,"step":40,"state":"finished"})");
    const RunSummary summary = summarize(run.path());
    EXPECT_DOUBLE_EQ(summary.samples_per_second, 100) << "the last record, of one step, is slow";
    EXPECT_LT(summary.bytes_read, 5 << 19);
  }
}

TEST(RunSummary, ListsNewestFirstWithDamagedOnes) {
  const testing::TempDir folder;
  const auto run = [&](const std::string& name, const std::string& metrics) {
    fs::create_directories(folder / "runs" / name);
    std::ofstream(folder / "runs" / name / "metrics.jsonl") << metrics;
    std::ofstream(folder / "runs" / name / "environment.json")
        << R"({"task":"classify","metric":"top1"})";
  };
  run("old", "{\"kind\":\"step\",\"time\":1000,\"step\":1}\n");
  run("new",
      "{\"kind\":\"step\",\"time\":3000,\"step\":5,\"samples_per_second\":7}\n{\"kind\":\"state\","
      "\"time\":3000,"
      "\"state\":\"failed\"}\n");
  run("bad", "no record\n");
  run("\x1b[31m", "{\"kind\":\"step\",\"time\":2000,\"step\":1}\n");
  fs::create_directories(folder / "runs/targets");
  fs::create_directories(folder / "runs/fresh/checkpoints");
  std::ofstream(folder / "runs/fresh/.lock") << "process 1 on vm";
  fs::remove(folder / "runs/bad/environment.json");
  const FileLock held(folder / "runs/old/.lock", "it is trained", "wait");
  const std::vector<RunSummary> runs = list_runs(folder / "runs");
  ASSERT_EQ(runs.size(), 5U) << "targets is no run";
  const std::string table = runs_table(runs, 3060);
  EXPECT_LT(table.find("new"), table.find("old"));
  EXPECT_THAT(table, HasSubstr("\\x1b[31m"));
  EXPECT_THAT(table, HasSubstr("1m00s"));
  EXPECT_THAT(runs_json(runs), HasSubstr("\"state\": \"running\""));
  for (const RunSummary& summary : runs) {
    if (summary.name == "bad") {
      EXPECT_NE(summary.problem, "");
    }
    if (summary.name == "new") {
      EXPECT_EQ(summary.state, RunState::kFailed);
    }
    if (summary.name == "fresh") {
      EXPECT_EQ(summary.problem, "neither environment.json nor config.yaml can be read");
    }
  }
  EXPECT_THAT(table, HasSubstr("damaged"));
  EXPECT_EQ(list_runs(folder / "runs/old").size(), 1U) << "of a run: that one";
}

TEST(RunSummary, ALongNameDoesNotPushTheColumnsOfOthers) {
  RunSummary plain, long_named;
  plain.name = "short";
  plain.task = "classify";
  long_named.name = std::string(200, 'n');
  const std::string table = runs_table({plain, long_named}, 0);
  EXPECT_THAT(table, HasSubstr("  short  no metrics  classify"));
  EXPECT_THAT(table, HasSubstr(long_named.name));
}

TEST(RunSummary, AFolderWithoutRuns) {
  const testing::TempDir folder;
  expect_error<DataError>([&] { list_runs(folder / "none"); },
                          {"none does not exist: no run was started here"});
  fs::create_directory(folder / "runs");
  expect_error<DataError>([&] { list_runs(folder / "runs"); }, {"runs has no runs in it"});
  std::ofstream(folder / "file") << "x";
  expect_error<DataError>([&] { list_runs(folder / "file"); }, {"file is a file"});
}

TEST(RunSummary, AThousandRuns) {
  const testing::TempDir folder;
  std::string text;
  for (int64_t step = 1; step <= 300; ++step) {
    text += str(R"({"kind":"step","time":)", 1000 + step, R"(,"step":)", step,
                R"(,"samples_per_second":100})", "\n");
  }
  for (int i = 0; i < 1000; ++i) {
    const fs::path run = folder / ("r" + std::to_string(i));
    fs::create_directories(run);
    std::ofstream(run / "metrics.jsonl") << text;
    std::ofstream(run / "environment.json") << R"({"task":"classify","metric":"top1"})";
  }
  const std::vector<RunSummary> runs = list_runs(folder.path());
  ASSERT_EQ(runs.size(), 1000U);
  int64_t bytes = 0;
  for (const RunSummary& run : runs) {
    bytes += run.bytes_read;
    EXPECT_EQ(run.step, 300);
  }
  EXPECT_LT(bytes, int64_t{1000} * (40 << 10));
}

}  // namespace
}  // namespace dtrain::report
