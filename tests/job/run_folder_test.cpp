// --resume auto with a name alone: which runs it may start.

#include "job/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/temp_dir.h"

namespace dtrain::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const config::Config& config, bool may_start) {
  try {
    plan_run(config, may_start);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanRun, ResumeAutoStartsNothingThatNobodyNamed) {
  const dtrain::testing::TempDir folder;
  config::Config config;
  config.run.folder = (folder / "runs").string();
  config.run.name = "hp";
  config.run.resume = "auto";
  EXPECT_EQ(refusal(config, /*may_start=*/true), "");
  const std::string where = (folder / "runs/hp").string();
  EXPECT_THAT(
      refusal(config, /*may_start=*/false),
      AllOf(HasSubstr("--resume auto: " + where + " does not exist"), HasSubstr("dtrain.yaml is not there"),
            HasSubstr("change to the folder of the run, give --run.folder, or name what to train with --task")));
  std::filesystem::create_directories(folder / "runs/hp");
  EXPECT_EQ(refusal(config, /*may_start=*/true), "");
  EXPECT_THAT(refusal(config, /*may_start=*/false), HasSubstr(where + " has no checkpoint yet"));
  config.run.resume = "";
  config.run.name = "other";
  EXPECT_EQ(refusal(config, /*may_start=*/false), "") << "a plain start of the demo";
}

}  // namespace
}  // namespace dtrain::job
