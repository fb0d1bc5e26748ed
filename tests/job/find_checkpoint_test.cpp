#include "job/find_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/snapshots.h"
#include "checkpoint/store.h"
#include "core/error.h"
#include "job/inspect_run.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;

class FindCheckpoint : public ::testing::Test {
 protected:
  fs::path save(int64_t step, int64_t best_step,
                const std::vector<std::pair<std::string, double>>& evaluation = {}) {
    checkpoint::Snapshot snapshot = testing::snapshot_of(step);
    train::TrainingState state;
    state.step = step;
    state.metric = "mae";
    state.evaluation = evaluation;
    state.watch.best_step = best_step;
    state.watch.best = 2.5;
    snapshot.state_json = train::to_json(state);
    return checkpoint::CheckpointStore(folder / "checkpoints", real_file_system(), 9)
        .save(snapshot);
  }
  FoundCheckpoint find(const std::string& choice) const {
    return find_checkpoint({folder.path().string(), choice});
  }
  testing::TempDir folder;
};

TEST_F(FindCheckpoint, ByItsPlaceAmongThoseOfTheRun) {
  const fs::path first = save(4, 4), second = save(8, 4);
  for (const char* choice : {"", "newest"}) {
    EXPECT_EQ(find(choice).folder, second);
    EXPECT_EQ(find(choice).chosen, "newest");
  }
  EXPECT_EQ(find("best").folder, first);
  EXPECT_EQ(find("best").chosen, "best: mae 2.5000");
  EXPECT_EQ(find("8").folder, second);
  EXPECT_EQ(find("4").chosen, "step 4");
  EXPECT_EQ(find_checkpoint({first.string(), ""}).chosen, "");
  std::ofstream(second / "model.safetensors", std::ios::app) << "x";
  EXPECT_EQ(find("newest").folder, first) << "the newest that verifies";
}

TEST_F(FindCheckpoint, RefusesWhatIsNotThere) {
  const auto fails = [&](const std::string& choice, const std::vector<std::string>& parts) {
    expect_error<CheckpointError>([&] { find(choice); }, parts);
  };
  fails("", {"neither a checkpoint nor a run folder"});
  fails("4", {"has no checkpoint of step 4; it has no checkpoints"});
  const fs::path only = save(8, -1);
  fails("best", {"has no best checkpoint", "step_00000008", "--checkpoint newest"});
  fails("5", {"has no checkpoint of step 5; it has those of the steps 8"});
  save(12, 10);
  fails("best", {"the best checkpoint of", "of step 10 (mae 2.5000), is not there",
                 "those of the steps 12, 8"});
  expect_error<CheckpointError>(
      [&] {
        find_checkpoint({(only / "state.json").string(), ""});
      },
      {"is a file"});
  expect_error<CheckpointError>(
      [&] {
        find_checkpoint({(folder / "none").string(), ""});
      },
      {"there is no such folder"});
  for (const char* choice : {"bset", "-1", "4.0", "step_00000008"}) {
    expect_error<UsageError>([&] { find(choice); }, {choice, "neither best, newest, nor a step"});
  }
  for (const char* choice : {"best", "newest", "8"}) {
    expect_error<UsageError>(
        [&] {
          find_checkpoint({only.string(), choice});
        },
        {"chooses among the checkpoints of a run"});
  }
}

TEST_F(FindCheckpoint, InspectMarksTheBestAndNamesWhatWasMeasured) {
  save(4, 4, {{"loss", 0.5}, {"mae", 2.5}});
  save(8, 4, {{"loss", 0.6}, {"mae", 2.75}});
  save(1200, 4);
  const RunReport report = inspect_run(folder.path(), true);
  EXPECT_THAT(
      report.text,
      ::testing::EndsWith(
          "\nstep 1200   mae –, newest\nstep 8      mae 2.7500\nstep 4      mae 2.5000, best\n"));
  EXPECT_EQ(report.damaged, 0);
  std::ofstream(folder / "checkpoints/step_00000008/rank_1.safetensors", std::ios::app) << "x";
  EXPECT_EQ(inspect_run(folder.path(), false).damaged, 0);
  EXPECT_EQ(inspect_run(folder.path(), true).damaged, 1);
  EXPECT_THAT(inspect_run(folder.path(), true).text,
              ::testing::HasSubstr("rank_1.safetensors has "));
  fs::remove_all(folder / "checkpoints/step_00000004");
  EXPECT_THAT(inspect_run(folder.path(), false).text,
              ::testing::HasSubstr("the best, step 4 (mae 2.5000), is not there"));
}

}  // namespace
}  // namespace dtrain::job
