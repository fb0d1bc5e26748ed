// A new task is one folder and one line in the table. This target has both (fixture/): the
// configuration knows the task, and it passes the contract of every task (contract_test.cpp, run
// for it alone), in which it also trains.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/print.h"
#include "core/error.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

using ::testing::HasSubstr;

std::string kind_of(const std::string& key) {
  config::Config config;
  for (const config::Option& option : config::describe(config)) {
    if (option.path == key) return config::value_kind(option);
  }
  return "";
}

TEST(NewTask, IsKnownToTheConfiguration) {
  EXPECT_THAT(kind_of("task.name"), HasSubstr(" | toy"));
  EXPECT_THAT(kind_of("model.name"), HasSubstr(" | toy_network"));
  EXPECT_THAT(config::help_text(), HasSubstr("toy_network"));
  const config::Config config = config::from_yaml("task: toy", "c.yaml");
  EXPECT_EQ(name_of(config.task), "toy");
  EXPECT_EQ(name_of(config::network_of(config)), "toy_network");
  EXPECT_EQ(config::dropout_of(config), 0);
  EXPECT_THAT(config::to_yaml(config), HasSubstr("name: toy "));
}

TEST(NewTask, TrainsItsOwnNetworksOnly) {
  try {
    config::from_yaml("task: toy\nmodel: {name: resnet18}", "c.yaml");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "c.yaml:2:15: model.name: task toy trains toy_network, headpose_cnn, not resnet18");
  }
  EXPECT_THROW(config::from_yaml("task: toy\ntrain: {label_smoothing: 0.1}", "c.yaml"),
               ConfigError);
}

TEST(NewTask, IsMadeFromItsConfiguration) {
  const auto task = make_task(config::from_yaml("task: toy", "c.yaml"), {});
  EXPECT_THAT(task->columns(), ::testing::ElementsAre("a", "b", "c"));
}

}  // namespace
}  // namespace dtrain::tasks
