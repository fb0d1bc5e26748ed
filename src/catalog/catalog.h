#pragma once

// The one table of what dtrain can learn: the tasks, the networks and the generated data of each,
// the data sets that can be converted, and the embedded configuration (configs/NAME.yaml) of each.
// The configuration, the converters, the generators, the quick start and the registry of tasks all
// read it, so that a new task is one folder in src/tasks and one line in tasks.def. Constant after
// start-up; knows nothing of torch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/named_enum.h"

namespace dtrain::catalog {

struct Network {
  std::string_view name = {};
  double dropout = 0;         // what model.dropout -1 means; 0: it has no dropout
  bool batch_norm = false;    // train.freeze_batch_norm and train.sync_batch_norm can be used
  bool hidden_units = false;  // model.hidden can be used
};

enum class Sample { kPicture, kSequence, kSet };  // what one sample of a task is
constexpr auto names_of(Sample) { return names("picture", "sequence", "set"); }

// What `dtrain synth` and the quick start can generate.
struct Generated {
  std::vector<std::string> layouts = {};  // the first is the default
  int64_t samples = 0;  // unless another number is asked for; 0: nothing can be generated
};

struct Task {
  std::string name;
  std::vector<Network> networks = {};  // the first is the task's own
  Sample sample = Sample::kPicture;
  bool network_from_file = false;  // the network comes from model.file
  bool classes = false;        // a sample may belong to a class: train.label_smoothing can be used
  bool class_weights = false;  // train.class_weights can be used
  std::string quickstart =
      {};  // embedded configuration of a run without data; "": that of the first task
  Generated generated = {};
};

// A task or a network by its place in the table. Both are parsed and printed like any enum
// with names.
enum class TaskId : int {};
enum class NetworkId : int { kAuto };  // kAuto: the task's own

const std::vector<std::string>& names_of(TaskId);     // in the order of tasks.def
const std::vector<std::string>& names_of(NetworkId);  // "auto", then each network once

const Task& row(TaskId);
const Network& row(NetworkId);             // not of kAuto
TaskId task_named(std::string_view name);  // internal error if there is none
NetworkId network_named(std::string_view name);

// What `dtrain convert NAME` reads and `--dataset NAME` trains on.
struct DataSet {
  std::string name;
  std::string task;
  std::string config = {};  // embedded configuration of `--dataset NAME`; "": it is not trained on
  int size =
      0;  // side of the stored pictures in pixels unless another is asked for; 0: as they are
  std::string folder = {};  // what is in the folder that is converted; "": a file is converted
};
const std::vector<DataSet>& data_sets();               // sorted by name
const DataSet* data_set_named(std::string_view name);  // nullptr: there is none
std::vector<std::string> data_set_names();
std::vector<std::string> trainable_data_sets();  // the names of those with a configuration

}  // namespace dtrain::catalog
