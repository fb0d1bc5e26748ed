#include "supervisor/launch_record.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/error.h"
#include "os/file_lock.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

using dtrain::testing::expect_error;
using dtrain::testing::FakeClock;
using dtrain::testing::TempDir;
using nlohmann::json;
using std::chrono::seconds;
namespace fs = std::filesystem;

class LaunchRecordTest : public ::testing::Test {
 protected:
  fs::path run() const { return runs_ / "r"; }
  void steps(int64_t from, int64_t to) {  // one each second
    fs::create_directories(run());
    std::ofstream file(run() / "metrics.jsonl", std::ios::app);
    for (int64_t step = from; step <= to; ++step) {
      clock_.advance(seconds(1));
      json record = {
          {"kind", "step"}, {"time", unix_seconds(clock_) + clock_difference_}, {"step", step}};
      if (!filler_.empty()) record["ranks"] = filler_;
      file << record.dump() << "\n";
    }
  }
  fs::path save(int64_t step) {
    fs::create_directories(run());
    checkpoint::Snapshot snapshot;
    snapshot.step = step;
    snapshot.state_json = "{}";
    snapshot.ranks.resize(1);
    return checkpoint::CheckpointStore(run() / "checkpoints", real_file_system(), 100)
        .save(snapshot);
  }
  std::vector<json> events() const {
    std::vector<json> all;
    for (const std::string& line : split(read_text(run() / "launch.jsonl"), '\n')) {
      if (!line.empty()) all.push_back(json::parse(line));
    }
    return all;
  }

  TempDir runs_;
  FakeClock clock_;
  double clock_difference_ = 0;  // of rank 0's host
  std::string filler_;
};

TEST_F(LaunchRecordTest, WritesToAFileOfItsOwnAlone) {
  fs::create_directories(run());
  fs::create_symlink(runs_ / "elsewhere", run() / "launch.jsonl");
  LaunchRecord linked(run(), true, -1, clock_);
  expect_error<OutputError>([&] { linked.launch_started({}); },
                            {"launch.jsonl is a symbolic link", "remove it"});
  EXPECT_FALSE(fs::exists(runs_ / "elsewhere"));
  fs::remove(run() / "launch.jsonl");
  ASSERT_EQ(::mkfifo((run() / "launch.jsonl").c_str(), 0600), 0);
  LaunchRecord piped(run(), true, -1, clock_);
  expect_error<OutputError>([&] { piped.launch_started({}); }, {"is not a regular file"});
}

TEST_F(LaunchRecordTest, OfTwoLaunchesThatStartARunTheOneThatTrainsItWrites) {
  LaunchRecord loser(run(), false, -1, clock_), winner(run(), false, -1, clock_);
  for (LaunchRecord* record : {&loser, &winner}) {
    record->launch_started({record == &winner ? "winner" : "loser"});
    record->job_started({1, {}});
  }
  steps(1, 1);
  const FileLock trains(run() / ".lock", "it is being trained", "");
  loser.look();
  winner.look();
  EXPECT_FALSE(winner.is_open()) << "the folder may be of the other one";
  winner.run_is_held(run());
  winner.look();
  EXPECT_TRUE(winner.is_open());
  loser.job_ended(EndCause::kError, {.code = 73}, 0, "it is being trained by another process");
  loser.launch_ended(73, "");
  EXPECT_FALSE(loser.is_open());
  ASSERT_EQ(events().size(), 2U);
  EXPECT_EQ(events()[0]["command"][0], "winner");
}

TEST_F(LaunchRecordTest, ALinkThatAppearsWhileAJobTrainsDoesNotEndIt) {
  fs::create_directories(run());
  LaunchRecord record(run(), true, -1, clock_);
  record.launch_started({});
  fs::create_symlink(runs_ / "elsewhere", run() / "launch.jsonl");
  record.run_is_held(run());
  record.look();
  EXPECT_FALSE(record.is_open());
  EXPECT_FALSE(fs::exists(runs_ / "elsewhere"));
}

TEST_F(LaunchRecordTest, ALaunchThatWasRefusedWritesNothingWhenTheOtherRunHasEndedMeanwhile) {
  LaunchRecord record(run(), false, -1, clock_);
  record.launch_started({});
  record.job_started({1, {}});
  steps(1, 3);  // of the other one
  record.job_ended(EndCause::kError, {.code = 73}, 0, "run r exists");
  record.launch_ended(73, "");
  EXPECT_FALSE(record.is_open());
}

TEST_F(LaunchRecordTest, AJobThatFailsBeforeItHoldsTheRunIsRecordedIfNoOtherLaunchTrainsIt) {
  fs::create_directories(run());
  LaunchRecord record(run(), true, -1, clock_);
  record.launch_started({});
  record.job_started({1, {}});
  record.look();
  EXPECT_FALSE(record.is_open());
  record.job_ended(EndCause::kError, {.code = 65}, 0, "no such data");
  ASSERT_EQ(events().size(), 3U);
  EXPECT_EQ(events()[2]["text"], "no such data");
}

TEST_F(LaunchRecordTest, LearnsTheNameOfItsRunFromAJob) {
  const fs::path before = fs::current_path();
  fs::current_path(runs_.path());  // a run without a name has no files here
  fs::create_directories("checkpoints/step_00000009");
  std::ofstream("metrics.jsonl") << R"({"kind":"step","time":1,"step":9})"
                                 << "\n";
  LaunchRecord record("", false, -1, clock_);
  record.launch_started({"-np", "1"});
  record.job_started({1, {}});
  record.look();
  EXPECT_EQ(record.progress().saved(), -1);
  EXPECT_EQ(record.progress().trained(), -1);
  EXPECT_FALSE(record.is_open());
  steps(1, 4);
  save(4);
  record.run_is_held(run());
  record.look();
  EXPECT_TRUE(record.is_open());
  EXPECT_EQ(record.progress().saved(), 4);
  steps(5, 6);
  record.job_ended(EndCause::kCrash, {.code = 137}, 0, "killed");
  fs::current_path(before);
  ASSERT_EQ(events().size(), 3U);
  EXPECT_EQ(events()[2]["saved_step"], 4);
  EXPECT_EQ(events()[2]["lost_steps"], 2);
  EXPECT_FALSE(fs::exists(runs_ / "launch.jsonl"));
}

TEST_F(LaunchRecordTest, WaitsForALaunchThatStillRecords) {
  fs::create_directories(run());
  LaunchRecord record(run(), true, -1, clock_);
  record.run_is_held(run());
  {
    const FileLock other(run() / ".launch.lock", "it is recorded", "");
    record.launch_started({});
    EXPECT_FALSE(record.is_open());
  }
  record.look();
  EXPECT_EQ(events().size(), 1U);
}

TEST_F(LaunchRecordTest, CountsWhatIsLostAndWhatTrained) {
  LaunchRecord record(run(), false, -1, clock_);
  record.launch_started({"-np", "2"});
  record.job_started({2, {}});
  steps(1, 11);
  save(8);
  record.job_ended(EndCause::kCrash, {.code = 137}, 1, "rank 1: ended by signal 9");
  EXPECT_EQ(record.totals().lost_steps, 3);
  EXPECT_EQ(record.totals().useful_seconds, 7) << "from step 1 to step 8";
  record.restart(EndCause::kCrash);
  clock_.advance(seconds(9));
  record.job_started({2, {}});
  steps(9, 20);
  record.look();
  EXPECT_EQ(record.totals().useful_seconds, 7 + 11) << "none of it is lost yet";
  record.job_ended(EndCause::kFinished, {.code = 0}, {}, "");
  record.launch_ended(0, "");
  const LaunchTotals totals = record.totals();
  EXPECT_EQ(totals.lost_steps, 3);
  EXPECT_EQ(totals.restarts.at("crash"), 1);
  EXPECT_EQ(totals.seconds, 11 + 9 + 12);
  EXPECT_NEAR(totals.effective_ratio, 18. / 32, 1e-12);

  const std::vector<json> all = events();
  ASSERT_EQ(all.size(), 7u) << "those from before the folder was there, too";
  EXPECT_EQ(all[0].at("event"), "launch_started");
  EXPECT_EQ(all[1].at("event"), "job_started");
  EXPECT_FALSE(all[1].contains("from_step"));
  EXPECT_EQ(all[2].at("cause"), "crash");
  EXPECT_EQ(all[2].at("rank"), 1);
  EXPECT_EQ(all[2].at("step"), 11);
  EXPECT_EQ(all[2].at("saved_step"), 8);
  EXPECT_EQ(all[2].at("lost_steps"), 3);
  EXPECT_EQ(all[3].at("event"), "restart");
  EXPECT_EQ(all[3].at("cause"), "crash");
  EXPECT_EQ(all[4].at("from_step"), 8);
  EXPECT_EQ(all[5].at("event"), "job_ended");
  EXPECT_EQ(all[5].at("cause"), "finished");
  EXPECT_EQ(all[6].at("event"), "launch_ended");
  EXPECT_EQ(all[6].at("restarts"), json({{"crash", 1}}));
}

TEST_F(LaunchRecordTest, WhatTheCheckpointHasIsKnownHoweverLongAgoItWasSaved) {
  filler_ = std::string(20'000, 'x');  // of many ranks
  LaunchRecord record(run(), false, -1, clock_);
  record.job_started({20, {}});
  steps(1, 8);
  save(8);
  record.look();
  for (int64_t step = 9; step < 100; step += 10) {  // all together more than what is read at a time
    steps(step, step + 9);
    record.look();
  }
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 100);
  EXPECT_EQ(record.totals().useful_seconds, 7) << "from step 1 to step 8";
}

TEST_F(LaunchRecordTest, AStepBeforeALongRecordIsRead) {
  LaunchRecord record(run(), false, -1, clock_);
  record.job_started({1, {}});
  steps(1, 3);
  std::ofstream(run() / "metrics.jsonl", std::ios::app)
      << json({{"kind", "eval"}, {"table", std::string(700'000, 'x')}}).dump() << "\n";
  record.look();
  EXPECT_EQ(record.progress().trained(), 3);
}

TEST_F(LaunchRecordTest, TheClockOfRank0MayDiffer) {
  for (const int off : {-300, 300}) {
    fs::remove_all(run());
    clock_difference_ = off;
    LaunchRecord record(run(), false, -1, clock_);
    record.job_started({1, {}});
    steps(1, 5);
    save(4);
    record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
    EXPECT_EQ(record.totals().lost_steps, 1) << off;
    EXPECT_EQ(record.totals().useful_seconds, 3) << off;
    record.job_started({1, {}});
    record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
    EXPECT_EQ(record.totals().lost_steps, 1) << "the second one made no step: " << off;
  }
}

TEST_F(LaunchRecordTest, TheClockOfALaterRank0MayBeBehind) {
  LaunchRecord record(run(), false, -1, clock_);
  record.job_started({1, {}});
  steps(1, 8);
  save(4);
  record.job_ended(EndCause::kHostLost, {.code = 205, .host_lost = true}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 4);
  clock_difference_ = -300;
  record.job_started({1, {}});
  fs::remove(run() / "metrics.jsonl");
  record.look();
  steps(5, 7);
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 4 + 3);
}

TEST_F(LaunchRecordTest, WhatAJobCutsOffDoesNotHideItsOwnSteps) {
  LaunchRecord record(run(), false, -1, clock_);
  record.job_started({1, {}});
  steps(1, 8);
  save(4);
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  record.job_started({1, {}});
  fs::remove(run() / "metrics.jsonl");
  steps(1, 4);  // where the earlier ones were
  record.look();
  EXPECT_EQ(record.progress().trained(), 4);
  steps(5, 7);
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 4 + 3);
}

TEST_F(LaunchRecordTest, ARestartWithoutACheckpointLosesAllSteps) {
  LaunchRecord record(run(), false, -1, clock_);
  record.job_started({1, {}});
  steps(1, 5);
  record.job_ended(EndCause::kComm, {.code = 76}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 5);
  EXPECT_EQ(record.totals().useful_seconds, 0);
}

TEST_F(LaunchRecordTest, ARunThatBeginsWithTheCheckpointOfAnotherLosesNoneOfItsSteps) {
  LaunchRecord record(run(), true, /*from_step=*/20, clock_);
  record.job_started({1, {}});
  steps(21, 25);
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 5);
}

TEST_F(LaunchRecordTest, ADamagedCheckpointDoesNotCountUntilItIsWrittenAgain) {
  LaunchRecord record(run(), false, -1, clock_);
  record.job_started({1, {}});
  steps(1, 11);
  save(4);
  std::ofstream(save(8) / "state.json") << "[]";
  record.look();
  EXPECT_EQ(record.progress().saved(), 8) << "it is not read while a job trains";
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  EXPECT_EQ(record.progress().saved(), 4);
  EXPECT_EQ(record.totals().lost_steps, 7);
  EXPECT_EQ(record.totals().useful_seconds, 3) << "from step 1 to step 4";
  clock_.advance(seconds(9));
  record.job_started({1, {}});
  steps(5, 9);
  record.look();
  EXPECT_EQ(record.progress().saved(), 4);
  // Time stamps of files advance only every few milliseconds
  const fs::path manifest = save(8) / checkpoint::kManifestName;
  fs::last_write_time(manifest, fs::last_write_time(manifest) + seconds(1));
  record.look();
  EXPECT_EQ(record.progress().saved(), 8);
  record.job_ended(EndCause::kCrash, {.code = 137}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 7 + 1);
  EXPECT_EQ(events().at(2).at("from_step"), 4);
}

TEST_F(LaunchRecordTest, TheStepOfACheckpointIsInItsName) {
  save(7);
  save(12);
  EXPECT_EQ(step_at(run() / "checkpoints/step_00000007"), 7);
  EXPECT_EQ(step_at((run() / "checkpoints/step_00000007").string() + "/"), 7);
  EXPECT_EQ(step_at(run()), 12);
  EXPECT_EQ(step_at(runs_ / "none"), -1);
}

TEST_F(LaunchRecordTest, AJobThatDiesBeforeItsFirstStepLosesNone) {
  steps(1, 9);  // of an earlier launch
  save(9);
  clock_.advance(seconds(100));
  LaunchRecord record(run(), true, -1, clock_);
  EXPECT_EQ(record.progress().saved(), 9);
  record.job_started({1, {}});
  clock_.advance(seconds(3));
  record.job_ended(EndCause::kCrash, {.code = 139}, {}, "");
  EXPECT_EQ(record.totals().lost_steps, 0);
  EXPECT_EQ(record.totals().useful_seconds, 0);
}

TEST_F(LaunchRecordTest, WritesNothingIntoARunThatIsNotItsOwn) {
  fs::create_directories(run());
  {
    LaunchRecord record(run(), /*may_exist=*/false, -1, clock_);
    record.launch_started({});
    record.job_started({1, {}});
    record.job_ended(EndCause::kError, {.code = 73}, {}, "");
    record.launch_ended(73, "");
    EXPECT_FALSE(record.is_open());
  }
  EXPECT_TRUE(fs::is_empty(run()));
}

TEST_F(LaunchRecordTest, WhatElseIsInTheFilesIsNoProgress) {
  fs::create_directories(run() / "checkpoints/step_99.tmp");
  std::ofstream(run() / "metrics.jsonl")
      << "{\"kind\":\"step\",\"step\":\"x\",\"time\":1e12}\nnot json \"kind\":\"step\"\n"
         "{\"kind\":\"eval\",\"step\":7,\"time\":1e12}\n{\"kind\":\"step\",\"st";
  LaunchRecord record(run(), true, -1, clock_);
  record.job_started({1, {}});
  record.look();
  EXPECT_EQ(record.progress().trained(), -1);
  EXPECT_EQ(record.progress().saved(), -1);
}

TEST_F(LaunchRecordTest, HostsAreCounted) {
  LaunchRecord record(run(), false, -1, clock_);
  record.host_lost("a", "no answer");
  record.host_lost("b", "no answer");
  record.host_back("a");
  EXPECT_EQ(record.totals().hosts_lost, 1);
}

}  // namespace
}  // namespace dtrain::supervisor
