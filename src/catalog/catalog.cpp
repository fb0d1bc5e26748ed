#include "catalog/catalog.h"

#include <algorithm>

#include "core/check.h"

namespace dtrain::catalog {
namespace {

// The networks of more than one task, and those beside them.
constexpr std::array<ConvStage, 8> kMobilenetStages = {{{16, 1, 1, 1},
                                                        {24, 2, 2, 6},
                                                        {32, 3, 2, 6},
                                                        {64, 4, 2, 6},
                                                        {96, 3, 1, 6},
                                                        {160, 3, 2, 6},
                                                        {320, 1, 1, 6}}};
constexpr NetworkEntry kHeadposeCnn{
    .name = "headpose_cnn",
    .dropout = 0.3,
    .batch_norm = true,
    .layers = PictureLayers{.stages = {{{32}, {64}, {128}, {256}, {512}}}, .hidden = 256},
    .memory = {26.0, 32.7, 21.0, 28.1}};
constexpr NetworkEntry kSimpleCnn{
    .name = "simple_cnn",
    .dropout = 0.5,
    .layers = PictureLayers{.stages = {{{32}, {64}, {128}}}, .hidden = 256, .averages = false},
    .memory = {393.5, 19.7, 12.9, 3.6}};
constexpr NetworkEntry kMobilenetV2{
    .name = "mobilenet_v2",
    .dropout = 0.2,
    .batch_norm = true,
    .layers = PictureLayers{.block = ConvBlockKind::kInvertedResidual,
                            .stages = kMobilenetStages,
                            .stem = {3, 32, 3, 2},
                            .features = 1280},
    .memory = {34.3, 75.7, 37.8, 23.0}};
constexpr NetworkEntry kResnet18{
    .name = "resnet18",
    .batch_norm = true,
    .layers = PictureLayers{.block = ConvBlockKind::kResidual,
                            .stages = {{{64, 2}, {128, 2, 2}, {256, 2, 2}, {512, 2, 2}}},
                            .stem = {3, 64, 7, 2}},
    .memory = {170.7, 21.2, 12.0, 4.6}};
constexpr NetworkEntry kResnet50{
    .name = "resnet50",
    .batch_norm = true,
    .layers = PictureLayers{.block = ConvBlockKind::kBottleneck,
                            .stages = {{{64, 3}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}}},
                            .stem = {3, 64, 7, 2}},
    .memory = {359.2, 81.5, 42.1, 24.0}};

const std::vector<TaskEntry>& tasks() {
  static const std::vector<TaskEntry> all = {
#define DTRAIN_TASK(name_, ...) {.name = #name_, __VA_ARGS__},
#include "catalog/tasks.def"
#undef DTRAIN_TASK
  };
  return all;
}

// Each network once, where the last task that has it lists it: a task's own networks come before
// those that it shares with the tasks after it.
std::vector<NetworkEntry> all_networks() {
  std::vector<NetworkEntry> all = {{.name = "auto"}};
  for (const TaskEntry& task : tasks()) {
    for (const NetworkEntry& network : task.networks) {
      std::erase_if(all, [&](const NetworkEntry& earlier) { return earlier.name == network.name; });
      all.push_back(network);
    }
  }
  return all;
}

const std::vector<NetworkEntry>& networks() {
  static const std::vector<NetworkEntry> all = all_networks();
  return all;
}

template <typename Row, typename Takes>
std::vector<std::string> names_where(const std::vector<Row>& rows, const Takes& takes) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (takes(row)) names.emplace_back(row.name);
  }
  return names;
}

template <typename Row>
std::vector<std::string> names_in(const std::vector<Row>& rows) {
  return names_where(rows, [](const Row&) { return true; });
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

std::vector<std::string> task_names(bool (*wanted)(const TaskEntry&)) {
  return names_where(tasks(), wanted);
}

const TaskEntry& row(TaskId task) { return tasks().at(static_cast<size_t>(task)); }

const NetworkEntry& row(NetworkId network) {
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

const NetworkEntry* find_network(std::string_view name) {
  const auto found = std::ranges::find(networks().begin() + 1, networks().end(), name,
                                       &NetworkEntry::name);  // the first is "auto"
  return found == networks().end() ? nullptr : &*found;
}

bool is_from_file(std::string_view network) {
  const NetworkEntry* found = find_network(network);
  return found != nullptr && found->from_file();
}

const std::vector<DataSetEntry>& data_sets() {
  static const std::vector<DataSetEntry> all = {
      {.name = "300wlp",
       .task = "headpose",
       .format = RawFormat::k300wlp,
       .config = "headpose_300wlp",
       .size = 224,
       .folder = "AFW, HELEN, ...",
       .cropped = true},
      {.name = "aflw2000",
       .task = "headpose",
       .format = RawFormat::kAflw2000,
       .size = 224,
       .folder = "its .jpg and .mat files",
       .cropped = true},
      {.name = "arrays",
       .task = "module",
       .format = RawFormat::kArrays,
       .any_task = true,
       .has_classes = true},
      {.name = "biwi",
       .task = "headpose",
       .format = RawFormat::kBiwi,
       .config = "headpose_biwi",
       .size = 224,
       .folder = "01 to 24",
       .cropped = true,
       .test_sequences = true},
      {.name = "images",
       .task = "classify",
       .format = RawFormat::kPictures,
       .config = "classify",
       .size = 256,
       .folder = "a subfolder of pictures per class",
       .has_classes = true,
       .splits_from_folders = true},
      {.name = "pointer", .task = "pointer", .format = RawFormat::kSets, .config = "pointer"},
      {.name = "sequence",
       .task = "sequence",
       .format = RawFormat::kSequences,
       .config = "sequence",
       .folder = "a subfolder of .npy files per class",
       .has_classes = true,
       .splits_from_folders = true},
  };
  return all;
}

const DataSetEntry* data_set_named(std::string_view name) {
  const auto found = std::ranges::find(data_sets(), name, &DataSetEntry::name);
  return found == data_sets().end() ? nullptr : &*found;
}

std::vector<std::string> data_set_names() { return names_in(data_sets()); }

std::vector<std::string> trainable_data_sets() {
  return names_where(data_sets(), [](const DataSetEntry& set) { return !set.config.empty(); });
}

std::vector<std::string> cropped_data_sets() {
  return names_where(data_sets(), [](const DataSetEntry& set) { return set.cropped; });
}

}  // namespace dtrain::catalog
