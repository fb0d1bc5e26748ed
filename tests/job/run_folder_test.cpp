// Which runs --resume auto with a name alone may start, and names that are generated.

#include "job/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "core/log.h"
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

TEST(PlanRun, ResumeAutoStartsNothingThatIsNotNamed) {
  const dtrain::testing::TempDir folder;
  config::Config config;
  config.run.folder = (folder / "runs").string();
  config.run.name = "hp";
  config.run.resume = "auto";
  EXPECT_EQ(refusal(config, /*may_start=*/true), "");
  const std::string where = (folder / "runs/hp").string();
  EXPECT_THAT(refusal(config, /*may_start=*/false),
              AllOf(HasSubstr("--resume auto: " + where + " does not exist"),
                    HasSubstr("dtrain.yaml is not there"),
                    HasSubstr("change to the folder of the run, give --run.folder, or name what to "
                              "train with --task")));
  std::filesystem::create_directories(folder / "runs/hp");
  EXPECT_EQ(refusal(config, /*may_start=*/true), "");
  EXPECT_THAT(refusal(config, /*may_start=*/false), HasSubstr(where + " has no checkpoint yet"));
  config.run.resume = "";
  config.run.name = "other";
  EXPECT_EQ(refusal(config, /*may_start=*/false), "") << "a plain start of the demo";
}

TEST(PlanRun, RunsOfOneSecondHaveNamesOfTheirOwn) {
  const dtrain::testing::TempDir folder;
  config::Config config;
  config.run.folder = (folder / "runs").string();
  EXPECT_EQ(run_name(config), "");
  std::set<std::string> names;
  RunPlan first = plan_run(config, /*may_start=*/true);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "planning makes nothing";
  const std::string name = first.name;
  EXPECT_THAT(name, ::testing::MatchesRegex("headpose-[0-9]+-[0-9]+"));
  std::vector<RunPlan> plans(4);
  for (RunPlan& plan : plans) {
    plan = plan_run(config, /*may_start=*/true);
    plan.name = name;  // of the same second, also where this test is slow
    plan.folder = folder / "runs" / name;
  }
  claim_generated_name(first, real_file_system());
  EXPECT_EQ(first.folder, folder / "runs" / name);
  for (RunPlan& plan : plans) {
    claim_generated_name(plan, real_file_system());
    EXPECT_EQ(plan.folder, folder / "runs" / plan.name);
    EXPECT_TRUE(std::filesystem::is_directory(plan.folder));
    EXPECT_TRUE(is_locked(plan.folder / ".lock"));
    names.insert(plan.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{name + "-2", name + "-3", name + "-4", name + "-5"}));
  create_run(plans[0], config, "{}", real_file_system());
  EXPECT_TRUE(std::filesystem::exists(plans[0].folder / "config.yaml"));
  log::close_file();
}

TEST(PlanRun, AGivenNameIsTaken) {
  const dtrain::testing::TempDir folder;
  config::Config config;
  config.run.folder = (folder / "runs").string();
  config.run.name = "r";
  RunPlan first = plan_run(config, true), second = plan_run(config, true);
  create_run(first, config, "{}", real_file_system());
  log::close_file();
  EXPECT_THROW(create_run(second, config, "{}", real_file_system()), OutputError);
  EXPECT_THROW(plan_run(config, true), OutputError);
}

}  // namespace
}  // namespace dtrain::job
