#include "monitoring/targets_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "os/file_system.h"
#include "support/temp_dir.h"

namespace dtrain::monitoring {
namespace {

TEST(TargetsFile, HasTheFormThatFileSdReads) {
  const dtrain::testing::TempDir runs;
  TargetsFile file(runs.path(), "job",
                   {{"127.0.0.1:9500", "a", 0}, {"", "a", 1}, {"b:9500", "b", 2}});
  EXPECT_EQ(file.path(), runs / "targets" / "job.json");
  const auto groups = nlohmann::json::parse(read_text(file.path()));
  ASSERT_EQ(groups.size(), 2u) << "a rank without an endpoint is not a target";
  EXPECT_EQ(groups[0]["targets"], nlohmann::json({"127.0.0.1:9500"}));
  EXPECT_EQ(groups[1]["targets"], nlohmann::json({"b:9500"}));
  EXPECT_EQ(groups[1]["labels"], nlohmann::json({{"job_id", "job"}, {"node", "b"}, {"rank", "2"}}));
  file.remove();
  EXPECT_FALSE(std::filesystem::exists(file.path()));
  file.remove();  // twice does no harm
}

TEST(TargetsFile, ThatOfTheSupervisorHasANameOfItsOwnAndNoRank) {
  const dtrain::testing::TempDir runs;
  const TargetsFile ranks(runs.path(), "job", {{"127.0.0.1:9500", "a", 0}});
  const TargetsFile launch(runs.path(), "job", {{"127.0.0.1:9501", "a"}}, ".launch");
  EXPECT_EQ(launch.path(), runs / "targets" / "job.launch.json");
  const auto groups = nlohmann::json::parse(read_text(launch.path()));
  EXPECT_EQ(groups[0]["labels"], nlohmann::json({{"job_id", "job"}, {"node", "a"}}));
  EXPECT_TRUE(std::filesystem::exists(ranks.path()));
}

TEST(TargetsFile, StaysAfterACrashAndIsReplacedByTheNextRun) {
  const dtrain::testing::TempDir runs;
  { const TargetsFile crashed(runs.path(), "job", {{"127.0.0.1:1", "a", 0}}); }
  EXPECT_TRUE(std::filesystem::exists(runs / "targets" / "job.json"));
  const TargetsFile next(runs.path(), "job", {{"127.0.0.1:2", "a", 0}});
  EXPECT_NE(read_text(next.path()).find("127.0.0.1:2"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(runs / "targets"), {}), 1)
      << "a temporary file was left";
}

TEST(TargetsFile, AFolderThatCannotBeCreatedIsAnOutputError) {
  const dtrain::testing::TempDir runs;
  std::ofstream(runs / "targets") << "a file where the folder should be";
  EXPECT_THROW(TargetsFile(runs.path(), "job", {}), OutputError);
}

}  // namespace
}  // namespace dtrain::monitoring
