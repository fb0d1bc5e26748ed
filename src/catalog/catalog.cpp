#include "catalog/catalog.h"

#include <algorithm>

#include "core/check.h"

namespace dtrain::catalog {
namespace {

// The networks of more than one task, and those beside them.
constexpr Network kHeadposeCnn{.name = "headpose_cnn", .dropout = 0.3, .batch_norm = true};
constexpr Network kSimpleCnn{.name = "simple_cnn", .dropout = 0.5};
constexpr Network kMobilenetV2{.name = "mobilenet_v2", .dropout = 0.2, .batch_norm = true};
constexpr Network kResnet18{.name = "resnet18", .batch_norm = true};
constexpr Network kResnet50{.name = "resnet50", .batch_norm = true};

const std::vector<Task>& tasks() {
  static const std::vector<Task> all = {
#define DTRAIN_TASK(name_, ...) {.name = #name_, __VA_ARGS__},
#include "catalog/tasks.def"
#undef DTRAIN_TASK
  };
  return all;
}

// Each network once, where the last task that has it lists it: a task's own networks come before
// those that it shares with the tasks after it.
std::vector<Network> all_networks() {
  std::vector<Network> all = {{.name = "auto"}};
  for (const Task& task : tasks()) {
    for (const Network& network : task.networks) {
      std::erase_if(all, [&](const Network& earlier) { return earlier.name == network.name; });
      all.push_back(network);
    }
  }
  return all;
}

const std::vector<Network>& networks() {
  static const std::vector<Network> all = all_networks();
  return all;
}

template <typename Row>
std::vector<std::string> names_in(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace

const std::vector<std::string>& names_of(TaskId) {
  static const std::vector<std::string> names = names_in(tasks());
  return names;
}

const std::vector<std::string>& names_of(NetworkId) {
  static const std::vector<std::string> names = names_in(networks());
  return names;
}

const Task& row(TaskId task) { return tasks().at(static_cast<size_t>(task)); }

const Network& row(NetworkId network) {
  DTRAIN_CHECK(network != NetworkId::kAuto, "auto is no network");
  return networks().at(static_cast<size_t>(network));
}

TaskId task_named(std::string_view name) {
  const std::optional<TaskId> found = value_named<TaskId>(name);
  DTRAIN_CHECK(found, "task ", name);
  return *found;
}

NetworkId network_named(std::string_view name) {
  const std::optional<NetworkId> found = value_named<NetworkId>(name);
  DTRAIN_CHECK(found, "network ", name);
  return *found;
}

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> all = {
      {.name = "300wlp",
       .task = "headpose",
       .config = "headpose_300wlp",
       .size = 224,
       .folder = "AFW, HELEN, ..."},
      {.name = "aflw2000", .task = "headpose", .size = 224, .folder = "its .jpg and .mat files"},
      {.name = "arrays", .task = "module"},
      {.name = "biwi",
       .task = "headpose",
       .config = "headpose_biwi",
       .size = 224,
       .folder = "01 to 24"},
      {.name = "images",
       .task = "classify",
       .config = "classify",
       .size = 256,
       .folder = "a subfolder of pictures per class"},
      {.name = "pointer", .task = "pointer", .config = "pointer"},
      {.name = "sequence",
       .task = "sequence",
       .config = "sequence",
       .folder = "a subfolder of .npy files per class"},
  };
  return all;
}

const DataSet* data_set_named(std::string_view name) {
  const auto found = std::ranges::find(data_sets(), name, &DataSet::name);
  return found == data_sets().end() ? nullptr : &*found;
}

std::vector<std::string> data_set_names() { return names_in(data_sets()); }

std::vector<std::string> trainable_data_sets() {
  std::vector<std::string> names;
  for (const DataSet& set : data_sets()) {
    if (!set.config.empty()) names.push_back(set.name);
  }
  return names;
}

}  // namespace dtrain::catalog
