// The config lies above the tasks and cannot ask their registry, so it lists tasks and networks itself: what is added
// in one place and forgotten in the other fails here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "config/model_defaults.h"
#include "config/table.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

std::vector<std::string> allowed_of(const std::string& key) {
  config::Config config;
  for (const config::Option& option : config::describe(config)) {
    if (option.path == key) return option.allowed;
  }
  ADD_FAILURE() << "no key " << key;
  return {};
}

TEST(Registry, HoldsTheTasksThatTheConfigAllows) {
  EXPECT_THAT(task_names(), ::testing::UnorderedElementsAreArray(allowed_of("task.name")))
      << "src/tasks/tasks.def against task.name in src/config/task_keys.cpp";
}

TEST(Registry, EachTaskHasNetworksThatTheConfigAllowsAndEachNetworkATask) {
  std::set<std::string> networks{"auto"};
  for (const std::string& task : task_names()) {
    EXPECT_FALSE(config::networks_of(task).empty()) << task << " is not in src/config/model_defaults.cpp";
    networks.insert(config::networks_of(task).begin(), config::networks_of(task).end());
  }
  EXPECT_THAT(networks, ::testing::UnorderedElementsAreArray(allowed_of("model.name")))
      << "src/config/model_defaults.cpp against model.name in src/config/task_keys.cpp";
}

}  // namespace
}  // namespace dtrain::tasks
