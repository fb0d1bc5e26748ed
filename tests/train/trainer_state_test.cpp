// Which state a training reports while it evaluates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "train/toy_run.h"

namespace dtrain::train {
namespace {

using monitoring::LiveState;
using ::testing::ElementsAre;

// A long evaluation in the state `training` makes no step and would raise the alert DtrainStalled.
TEST(TrainerState, IsEvaluatingInTheTestToo) {
  const testing::TempDir folder;
  Scenario setup{.config = small(8), .folder = folder.path(), .test = {0, 1, 2}};
  setup.config.run.name = "toy";  // it saves before the test
  const RankRun r = run(setup)[0];
  ASSERT_EQ(r.error, "");
  ASSERT_FALSE(r.saved.empty());
  ASSERT_EQ(r.evals.size(), 3u);
  EXPECT_EQ(r.evals[2].split, "test");
  EXPECT_THAT(r.evaluated_in,
              ElementsAre(LiveState::kEvaluating, LiveState::kEvaluating, LiveState::kEvaluating));
  EXPECT_EQ(r.last_state, LiveState::kTraining) << "the job says how it ended";
}

}  // namespace
}  // namespace dtrain::train
