// Runs as they are found: whole, half written, growing, older, newer, damaged.

#include "report/read_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "core/error.h"
#include "os/file_lock.h"
#include "report/add_records.h"
#include "report/digest.h"
#include "run_folder.h"
#include "support/expect_error.h"

namespace dtrain::report {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunFolder;
namespace fs = std::filesystem;

TEST(RunRecords, OfAWholeRun) {
  const RunFolder run;
  run.whole_run();
  const RunRecords records = read_run(run.path());
  EXPECT_THAT(records.gaps, IsEmpty());
  EXPECT_EQ(records.state, RunState::kFinished);
  EXPECT_EQ(records.reason, "all 400 steps are done");
  EXPECT_EQ(records.name, "r");
  EXPECT_EQ(records.steps.size(), 40U);
  EXPECT_EQ(records.steps[1].count, 10);
  EXPECT_EQ(records.last_step, 400);
  EXPECT_EQ(records.verdict.text, "verdict: compute-bound 90 %");
  EXPECT_EQ(records.best_metric, "mae");
  EXPECT_DOUBLE_EQ(records.best_value, 6);
  EXPECT_EQ(records.best_step, 400);
  EXPECT_EQ(records.setting("train.epochs"), "4");
  EXPECT_EQ(records.environment.ranks.size(), 2U);
  EXPECT_EQ(records.evaluations.size(), 5U);
}

TEST(RunRecords, TheNewKeysOfRanksAndVerdicts) {
  const std::string text =
      R"({"kind":"verdict","step":2,"text":"verdict: data-bound on decode",)"
      R"("causes":[{"cause":"decode","rank":1,)"
      R"("gain":0.38,"error":0.02,"setting":"--data.workers 8","otherwise":"with less",)"
      R"("evidence":"8 of 13"},{"gain":null}],)"
      R"("communication":{"late_seconds":0.003,"latency_seconds":0.0002,"other_seconds":-1},)"
      R"("headroom":{"step_seconds":0.008},"all_reduce":{"latency_seconds":25e-6,)"
      R"("seconds_per_byte":"x"},)"
      R"("not_measured":["copy: no GPU clock", 7]})";
  RunRecords records;
  const std::string line =
      R"({"kind":"step","step":2,"other_seconds":0.004,"ranks":[{"rank":0,"step_seconds":0.1,)"
      R"("phase_seconds":{"forward":0.03},)"
      R"("other_seconds":0.002,"loader":{"read_seconds":0.01,"queue":0.75},)"
      R"("cpu":{"cpu_seconds":0.09,"cores":4,"threads":3},"memory_bytes":5,)"
      R"("gpu":{"utilization":0.5,"temperature_celsius":70,"energy_joules":40},"new":[1]},)"
      R"({"rank":1},"x",{"rank":-1},{"rank":"a"}]})";
  add_records(records, line + "\n" + text + "\n");
  ASSERT_EQ(records.steps.size(), 1U);
  const StepWindow& window = records.steps[0];
  EXPECT_DOUBLE_EQ(window.other_seconds, 0.004);
  ASSERT_EQ(window.ranks.size(), 2U) << "what is no rank is left out";
  EXPECT_DOUBLE_EQ(window.ranks[0].values[Quantity::kQueue], 0.75);
  EXPECT_DOUBLE_EQ(window.ranks[0].values[Quantity::kCpu], 0.09);
  EXPECT_DOUBLE_EQ(window.ranks[0].values[Quantity::kCores], 4);
  EXPECT_DOUBLE_EQ(window.ranks[0].values[Quantity::kGpuTemperature], 70);
  EXPECT_DOUBLE_EQ(window.ranks[0].values[Quantity::kGpuEnergy], 40);
  EXPECT_TRUE(std::isnan(window.ranks[1].values[Quantity::kMemory]));
  EXPECT_EQ(records.verdict.causes.size(), 2U);
  EXPECT_EQ(records.verdict.causes[0].setting, "--data.workers 8");
  EXPECT_EQ(records.verdict.causes[0].otherwise, "with less");
  EXPECT_TRUE(std::isnan(records.verdict.causes[1].gain));
  EXPECT_THAT(records.verdict.not_measured, ElementsAre("copy: no GPU clock", ""));
  EXPECT_DOUBLE_EQ(records.verdict.communication.late, 0.003);
  EXPECT_TRUE(std::isnan(records.verdict.communication.other)) << "no time is negative";
  EXPECT_DOUBLE_EQ(records.verdict.probes.cached_step, 0.008);
  EXPECT_DOUBLE_EQ(records.verdict.probes.latency, 25e-6);
  EXPECT_TRUE(std::isnan(records.verdict.probes.seconds_per_byte)) << "it is no number";
}

TEST(RunRecords, ALongVerdictIsWhole) {
  const std::string evidence(400, 'e');
  RunRecords records;
  add_records(records,
              str(R"({"kind":"verdict","step":2,"text":"verdict: )", evidence,
                  R"(","causes":[{"cause":"decode","evidence":")", evidence, R"("}]})", "\n"));
  EXPECT_EQ(records.verdict.text, "verdict: " + evidence);
  ASSERT_EQ(records.verdict.causes.size(), 1U);
  EXPECT_EQ(records.verdict.causes[0].evidence, evidence);
}

TEST(RunRecords, DamageIsLeftOutAndNamed) {
  const RunFolder run;
  run.whole_run();
  run.record("{\"kind\": \"step\", \"step\":");
  run.record("[1, 2]");
  run.record(R"({"kind":"step","step":10,"loss":1})");  // goes back in time
  run.record(R"({"kind":"telemetry","step":401})");     // of a later version
  run.record(
      R"({"kind":"eval","step":402,"split":"val","metrics":{"mae":"five"},"tables":[{"name":"t",)"
      R"("columns":["a"],"rows":["b"],"cells":[[1,2]]}, 3]})");
  run.write("environment.json", "{]");
  run.write("config.yaml", "\x01");
  const RunRecords records = read_run(run.path());
  EXPECT_EQ(records.steps.size(), 40U);
  EXPECT_THAT(records.gaps,
              Contains(HasSubstr("2 lines are no record and left out (the first: line 49)")));
  EXPECT_THAT(records.gaps, Contains(HasSubstr("1 step records that go back in time")));
  EXPECT_THAT(records.gaps,
              Contains(HasSubstr("1 records of kinds that this version does not know")));
  EXPECT_THAT(records.gaps, Contains("environment.json is damaged: it is no JSON object"));
  EXPECT_THAT(records.gaps, Contains("config.yaml is damaged: it has no settings"));
  EXPECT_TRUE(records.evaluations.back().tables.empty());
  EXPECT_TRUE(std::isnan(records.evaluations.back().metric("mae")));
}

TEST(RunRecords, ACutLastLineIsAGapUnlessTheRunGrows) {
  const std::string text = "{\"kind\":\"step\",\"step\":1,\"loss\":2}\n{\"kind\":\"step\",\"st";
  RunRecords ended, growing;
  add_records(ended, text);
  add_records(growing, text, /*growing=*/true);
  EXPECT_EQ(ended.steps.size(), 1U);
  EXPECT_THAT(ended.gaps, ElementsAre(HasSubstr("a line that is cut")));
  EXPECT_THAT(growing.gaps, IsEmpty());
}

TEST(RunRecords, StatesOfRuns) {
  const RunFolder run;
  run.environment();
  EXPECT_EQ(read_run(run.path()).state, RunState::kNothing);
  EXPECT_THAT(read_run(run.path()).gaps, Contains("metrics.jsonl is not there"));
  run.record(R"({"kind":"state","time":1000,"step":0,"state":"training"})");
  run.step(10);
  EXPECT_EQ(read_run(run.path()).state, RunState::kCrashed);
  {
    const FileLock held(run.path() / ".lock", "it is trained", "wait");
    EXPECT_EQ(read_run(run.path()).state, RunState::kRunning);
    EXPECT_EQ(read_run(run.path(), /*own=*/true).state, RunState::kCrashed);
  }
  run.record(R"({"kind":"state","time":1011,"step":12,"state":"finished"})");
  EXPECT_EQ(read_run(run.path()).state, RunState::kStopped) << "12 of 400 steps";
  run.record(R"({"kind":"state","time":1012,"step":400,"state":"finished"})");
  EXPECT_EQ(read_run(run.path()).state, RunState::kFinished);
  run.record(R"({"kind":"state","time":1013,"step":400,"state":"failed"})");
  EXPECT_EQ(read_run(run.path()).state, RunState::kFailed);
}

// A resumed run appends to the records of the process before it.
TEST(RunRecords, TheReasonIsThatOfTheLastProcess) {
  const RunFolder run;
  run.environment();
  run.step(12);
  const auto reason_after = [&](const std::string& state) {
    run.record(str(R"({"kind":"state","time":1100,"step":12,)", state, "}"));
    return read_run(run.path()).reason;
  };
  EXPECT_EQ(reason_after(R"("state":"finished","exit_code":75,"reason":"stopped on request")"),
            "stopped on request");
  EXPECT_EQ(reason_after(R"("state":"training")"), "") << "the resumed process was killed";
  EXPECT_EQ(reason_after(R"("state":"failed","exit_code":65,"reason":"d.h5 is damaged")"),
            "d.h5 is damaged");
  EXPECT_EQ(read_run(run.path()).state, RunState::kFailed);
  EXPECT_EQ(reason_after(R"("state":"finished","exit_code":"x","reason":7)"), "")
      << "of another program";
}

TEST(RunState, WithoutPlannedStepsTheExitCodeTellsAStopFromTheEnd) {
  EXPECT_EQ(state_of(false, {"finished", 75, ""}, 12, 0), RunState::kStopped);
  EXPECT_EQ(state_of(false, {"finished", 0, ""}, 12, 0), RunState::kFinished);
  EXPECT_EQ(state_of(false, {"finished", 0, ""}, 12, 400), RunState::kStopped);
}

TEST(RunRecords, WhatIsNoRun) {
  const testing::TempDir folder;
  expect_error<DataError>([&] { read_run(folder / "none"); }, {"none does not exist"});
  std::ofstream(folder / "file") << "x";
  expect_error<DataError>([&] { read_run(folder / "file"); },
                          {"file is a file; name the folder of a run"});
  fs::create_directory(folder / "empty");
  expect_error<DataError>([&] { read_run(folder / "empty"); }, {"is no run folder"});
  fs::create_directories(folder / "runs/a/checkpoints/step_00000001");
  std::ofstream(folder / "runs/a/metrics.jsonl") << "";
  expect_error<DataError>([&] { read_run(folder / "runs"); }, {"holds runs (a); name one of them"});
  for (const char* name : {"b", "c", "d", "e", "f"}) {
    fs::create_directory(folder / "runs" / name);
    std::ofstream(folder / "runs" / name / "metrics.jsonl") << "";
  }
  expect_error<DataError>([&] { read_run(folder / "runs"); },
                          {"holds runs (a, b, c, d and 2 more); name one of them"});
  std::ofstream(folder / "runs/a/checkpoints/step_00000001/MANIFEST.json") << "{}";
  expect_error<DataError>([&] { read_run(folder / "runs/a/checkpoints/step_00000001"); },
                          {"is a checkpoint"});
  EXPECT_EQ(read_run(folder / "runs/a/").name, "a");
}

TEST(RunRecords, FilesThatAreNoFiles) {
  const RunFolder run;
  run.environment();
  ASSERT_EQ(::mkfifo((run.path() / "metrics.jsonl").c_str(), 0600), 0);
  fs::create_directory(run.path() / "log.txt");
  fs::remove(run.path() / "config.yaml");
  fs::create_symlink("/dev/zero", run.path() / "config.yaml");
  const RunRecords records = read_run(run.path());
  EXPECT_THAT(records.gaps, Contains("metrics.jsonl is not a regular file"));
  EXPECT_THAT(records.gaps, Contains("config.yaml is not a regular file"));
}

// The last evaluation of a split keeps its tables: any number of splits would be any number
// of tables.
TEST(RunRecords, OnlySplitsThatARunHasAreEvaluated) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += str(R"({"kind":"eval","split":"s)", i, R"(","step":)", i,
                R"(,"metrics":{"mae":1},"tables":[{"name":"t","columns":["a"],"rows":["b"],)"
                R"("cells":[[1]]}]})",
                "\n");
  }
  RunRecords records;
  add_records(records,
              text + R"({"kind":"eval","split":"test","step":9,"metrics":{"mae":1}})" + "\n");
  EXPECT_EQ(records.evaluations.size(), 1u);
}

TEST(RunRecords, ALongRunTakesBoundedMemory) {
  std::string text;
  for (int64_t step = 1; step <= 30000; ++step) {
    text += str(R"({"kind":"step","step":)", step, R"(,"loss":)", step % 2, R"(,"step_seconds":)",
                step == 777 ? 9 : 0.1,
                R"(,"samples_per_second":100,"phase_seconds":{"forward":0.1}})", "\n");
    text +=
        str(R"({"kind":"eval","split":"val","step":)", step, R"(,"metrics":{"mae":)", 30001 - step,
            R"(},"tables":[{"name":"t","columns":["a"],"rows":["b"],"cells":[[1]]}]})", "\n");
  }
  RunRecords records;
  add_records(records, text);
  EXPECT_LE(records.steps.size(), 2000U);
  EXPECT_GE(records.steps.size(), 1000U);
  EXPECT_EQ(records.steps.back().step, 30000);
  int64_t steps = 0;
  double loss = 0;
  for (const StepWindow& window : records.steps) {
    steps += window.count;
    loss += window.loss * static_cast<double>(window.count);
  }
  EXPECT_EQ(steps, 30000);
  EXPECT_NEAR(loss / 30000, 0.5, 1e-9);
  ASSERT_FALSE(records.slowest.empty());
  EXPECT_EQ(records.slowest[0].step, 777) << "the slowest steps are not joined with others";
  EXPECT_LE(records.evaluations.size(), 2000U);
  EXPECT_EQ(records.evaluations.back().step, 30000);
  EXPECT_EQ(records.evaluations.back().tables.size(), 1U);
}

TEST(RunRecords, OfMoreBytesThanAreReadTheBeginningAndTheEndCount) {
  const RunFolder run;
  run.whole_run();
  const auto size = static_cast<int64_t>(fs::file_size(run.path() / "metrics.jsonl"));
  const RunRecords records = read_run(run.path(), /*own=*/false, size / 2);
  EXPECT_EQ(records.state, RunState::kFinished);
  EXPECT_DOUBLE_EQ(records.last_time, 1401);
  EXPECT_EQ(records.steps.front().step, 10);
  EXPECT_EQ(records.steps.back().step, 400);
  EXPECT_LT(records.steps.size(), 25U);
  for (const StepWindow& window : records.steps)
    EXPECT_LE(window.count, 10) << "not those that are left out";
  EXPECT_DOUBLE_EQ(records.evaluations.back().metric("mae"), 6.5) << "of the test";
  EXPECT_THAT(records.gaps, ElementsAre(HasSubstr("metrics.jsonl has ")));
}

TEST(RunRecords, HostileLinesNeitherCrashNorHang) {
  const std::string deep(200000, '[');
  std::string text = deep + "\n" + R"({"kind":"step","step":1e300})" + "\n" +
                     R"({"kind":"step","step":-5,"loss":1})" + "\n" +
                     R"({"kind":7,"step":"x","time":"y"})" + "\n" +
                     R"({"kind":"step","step":1,"phase_seconds":[],"ranks":{"a":1}})" + "\n" +
                     R"({"kind":"eval","metrics":[],"tables":{},"split":[]})" + "\n" +
                     R"({"kind":"verdict","causes":{"a":1}})" + "\n\n\xff\xfe\n";
  text += R"({"kind":"eval","split":"val","step":2,"metrics":{"mae":null,"mae_text":"inf"},)"
          R"("tables":[{"columns":[")" +
          std::string(100000, 'x') + R"("],"rows":[1],"cells":[[1]]}]})" + "\n";
  RunRecords records;
  add_records(records, text);
  ASSERT_EQ(records.steps.size(), 1U);
  EXPECT_EQ(records.steps[0].step, 1);
  EXPECT_TRUE(std::isinf(records.evaluations.back().metric("mae")));
  EXPECT_LE(records.evaluations.back().tables.at(0).columns[0].size(), 300U);
  EXPECT_NO_THROW(digest(records));
}

TEST(RunRecords, TheBestValueIsThatOfTheNewestCheckpoint) {
  const RunFolder run;
  run.whole_run();
  run.write("checkpoints/step_00000300/state.json", R"({"metric":"mae","best":1,"best_step":300})");
  run.write("checkpoints/step_00000400/state.json",
            R"({"metric":"mae","best":4.5,"best_step":350})");
  run.write("checkpoints/step_00000400/model.safetensors", std::string(1000, 'x'));
  run.write("checkpoints/other/state.json", "{}");
  const RunRecords records = read_run(run.path());
  EXPECT_DOUBLE_EQ(records.best_value, 4.5);
  EXPECT_EQ(records.best_step, 350);
  ASSERT_EQ(records.checkpoints.size(), 2U);
  EXPECT_EQ(records.checkpoints[0].step, 400);
  EXPECT_GT(records.checkpoints[0].bytes, 1000);
}

TEST(RunRecords, OfVeryManyCheckpointsTheNewestAreListed) {
  const RunFolder run;
  run.whole_run();
  for (int i = 0; i < 1200; ++i) {  // in an order that no file system lists them in
    fs::create_directories(run.path() / "checkpoints" / str("step_", i * 7 % 1200 + 1));
  }
  const RunRecords records = read_run(run.path());
  ASSERT_EQ(records.checkpoints.size(), 1000U);
  EXPECT_EQ(records.checkpoints.front().step, 1200);
  EXPECT_EQ(records.checkpoints.back().step, 201);
}

TEST(Digest, WhereTheTimeWent) {
  const RunFolder run;
  run.whole_run();
  const RunRecords records = read_run(run.path());
  const Digest known = digest(records);
  EXPECT_EQ(known.planned_epochs, 4);
  EXPECT_DOUBLE_EQ(known.epochs, 4);
  EXPECT_DOUBLE_EQ(known.step_seconds, 0.1);
  EXPECT_EQ(known.speeds.size(), 38U) << "without those of the first 20 steps";
  EXPECT_NEAR(known.seconds, 39.1 + 2.5, 1e-9) << "391 steps of 100 ms, five evaluations of 500 ms";
  EXPECT_NEAR(known.parts[3], 0.6 * 39.1, 1e-9) << "backward";
  EXPECT_NEAR(known.parts[7], 2.5, 1e-9) << "evaluation, which no step record has";
  EXPECT_NEAR(known.parts.back(), 0.05 * 39.1, 1e-9) << "what no phase covers";
  EXPECT_TRUE(known.slow.empty());
  ASSERT_NE(known.last_test, nullptr);
  EXPECT_DOUBLE_EQ(known.last_test->metric("mae"), 6.5);
}

TEST(Digest, SavesCountOnceWhereverTheyWere) {
  RunRecords records;
  add_records(
      records,
      R"({"kind":"step","step":1,"step_seconds":3,"phase_seconds":{"forward":1,"checkpoint":2}})"
      "\n"
      R"({"kind":"checkpoint","step":1,"seconds":2})"
      "\n"
      R"({"kind":"checkpoint","step":2,"seconds":4})"
      "\n");
  const Digest known = digest(records);
  EXPECT_DOUBLE_EQ(known.parts[6], 6) << "the last one is in no step record";
  EXPECT_DOUBLE_EQ(known.seconds, 7);
}

TEST(Digest, TimeBetweenTwoProcessesDoesNotCount) {
  std::string text;
  for (int step = 10; step <= 200; step += 10) {
    text += str(R"({"kind":"step","time":)", (step > 100 ? 101000 : 1000) + step, R"(,"step":)",
                step, R"(,"step_seconds":0.1})", "\n");
  }
  RunRecords records;
  add_records(records, text);
  EXPECT_NEAR(digest(records).seconds, 19.1, 1e-9) << "the first record counts as one step";
}

TEST(Digest, CoresThatARankKeptBusyAreNotThoseThatItMayUse) {
  RunRecords records;
  std::string text;
  for (int step = 10; step <= 100; step += 10) {
    // The windows differ in length: what counts is all CPU time over all wall time. One has no
    // CPU time.
    const bool slow = step > 50;
    text += str(R"({"kind":"step","step":)", step, R"(,"ranks":[{"rank":0,"step_seconds":)",
                slow ? 0.3 : 0.1, R"(,"cpu":{)",
                step == 100 ? ""
                : slow      ? R"("cpu_seconds":0.3,)"
                            : R"("cpu_seconds":0.2,)",
                R"("cores":4}},{"rank":1,"cpu":{"cpu_seconds":0.2}}]})", "\n");
  }
  add_records(records, text);
  const Digest known = digest(records);
  ASSERT_EQ(known.ranks.size(), 2U);
  EXPECT_NEAR(known.ranks[0].cores_busy, (3 * 0.2 + 4 * 0.3) / (3 * 0.1 + 4 * 0.3), 1e-9);
  EXPECT_DOUBLE_EQ(known.ranks[0].values[Quantity::kCores], 4);
  EXPECT_TRUE(std::isnan(known.ranks[1].cores_busy)) << "its steps have no duration";
}

TEST(Digest, RanksAndSlowSteps) {
  RunRecords records;
  std::string text;
  for (int step = 1; step <= 200; ++step) {
    const double backward = step == 150 ? 0.25 : 0.05;
    text += str(R"({"kind":"step","step":)", step, R"(,"step_seconds":)", backward + 0.03,
                R"(,"phase_seconds":{"forward":0.03,"backward":)", backward,
                R"(},"ranks":[{"rank":0,"phase_seconds":{"forward":0.03,"backward":0.05}},)",
                R"({"rank":1,"phase_seconds":{"forward":0.03,"backward":0.09}}]})", "\n");
  }
  add_records(records, text);
  const Digest known = digest(records);
  ASSERT_EQ(known.ranks.size(), 2U);
  EXPECT_NEAR(known.ranks[1].computing, 0.12, 1e-9);
  EXPECT_NEAR(known.load_balance, 0.10 / 0.12, 1e-9);
  ASSERT_EQ(known.slow.size(), 1U);
  EXPECT_EQ(known.slow[0].last, 150);
  EXPECT_EQ(known.slow[0].cause, "backward +200.0 ms");
}

// One slow step of a window of ten: its mean says little, the record names it.
TEST(Digest, TheSlowestStepOfAWindow) {
  RunRecords records;
  std::string text;
  for (int step = 10; step <= 400; step += 10) {
    const bool slow = step == 200;
    const double data = slow ? 0.25 : 0.012;  // 0.01 is usual on rank 1
    text += str(R"({"kind":"step","step":)", step,
                R"(,"step_seconds":0.1,"phase_seconds":{"forward":0.1},)",
                R"("ranks":[{"rank":0,"phase_seconds":{"forward":0.1}},)",
                R"({"rank":1,"phase_seconds":{"forward":0.09,"data_wait":0.01}}],)",
                R"("slowest":{"step":)", step - 4, R"(,"rank":1,"step_seconds":)", data + 0.09,
                R"(,"phase_seconds":{"forward":0.09,"data_wait":)", data, "}}}\n");
  }
  add_records(records, text);
  EXPECT_EQ(records.slowest[0].slowest.step, 196);
  const Digest known = digest(records);
  ASSERT_EQ(known.slow.size(), 1U);
  EXPECT_EQ(known.slow[0].first, 196);
  EXPECT_EQ(known.slow[0].last, 196);
  EXPECT_DOUBLE_EQ(known.slow[0].step_seconds, 0.34);
  EXPECT_EQ(known.slow[0].cause, "waiting for data +240.0 ms (rank 1)");
}

}  // namespace
}  // namespace dtrain::report
