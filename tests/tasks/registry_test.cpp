// One table lists the tasks (src/catalog/tasks.def); what it says must be there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "catalog/catalog.h"
#include "config/load.h"

namespace dtrain::tasks {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> task_folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(DTRAIN_SOURCE "/src/tasks")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(Registry, EveryFolderIsATaskOfTheTableAndSaysWhatItLearns) {
  EXPECT_THAT(task_folders(), ::testing::UnorderedElementsAreArray(names_of(catalog::TaskId{})));
  for (const std::string& task : task_folders()) {
    EXPECT_TRUE(fs::exists(fs::path(DTRAIN_SOURCE "/src/tasks") / task / "README.md")) << task;
  }
}

TEST(Registry, EachTaskHasNetworksAndADefaultConfigWhereItHasGeneratedData) {
  for (const std::string& name : names_of(catalog::TaskId{})) {
    const catalog::TaskEntry& task = catalog::row(catalog::task_named(name));
    ASSERT_FALSE(task.networks.empty()) << name;
    EXPECT_NE(task.networks.front().name, "auto") << name;
    EXPECT_EQ(task.quickstart.empty(), task.generated.generator == catalog::Generator::kNone)
        << name;
    EXPECT_EQ(task.quickstart.empty(), task.generated.samples == 0) << name;
    if (task.quickstart.empty()) continue;
    EXPECT_EQ(
        name_of(config::from_yaml(config::embedded(task.quickstart).value(), task.quickstart).task),
        name);
  }
}

TEST(Registry, TheDefaultConfigOfADataSetIsForItsTask) {
  for (const catalog::DataSetEntry& set : catalog::data_sets()) {
    if (set.config.empty()) continue;
    EXPECT_EQ(name_of(config::from_yaml(config::embedded(set.config).value(), set.config).task),
              set.task);
  }
}

}  // namespace
}  // namespace dtrain::tasks
