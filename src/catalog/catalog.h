#pragma once

// The one table of what dtrain can learn: the tasks, the networks and the generated data of each,
// the data sets that can be converted, and the embedded configuration (configs/NAME.yaml) of each.
// The configuration, converters, generators, prediction, export, reports, the quick start and the
// registry of tasks all read it, so that a new task is one folder in src/tasks and one line in
// tasks.def. Constant after start-up; knows nothing of torch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "catalog/networks.h"
#include "text/named_enum.h"

namespace dtrain::catalog {

// What training with float32 weights and AdamW needs, in MiB, as measured on a CPU: memory_bytes of
// `dtrain bench step --task TASK --model.name NETWORK --model.image_size 224 --batch-sizes 1,2
// --json -` with --amp fp32, --amp bf16 and --model.checkpointing true. A sample is the difference
// of both batches: a picture of 224 pixels, or rows or a set of the quick start's length
// (--batch-sizes 32,64).
struct TrainingMemory {
  double fixed = 0, sample = 0, half_sample = 0;  // fixed 0: not measured
  double checkpointed_sample = 0;                 // with 32 bits; 0: it has no checkpointing
};

struct NetworkEntry {
  std::string_view name = {};
  double dropout = 0;       // what model.dropout -1 means; 0: it has no dropout
  bool batch_norm = false;  // train.freeze_batch_norm and train.sync_batch_norm can be used
  NetworkLayers layers = {};
  TrainingMemory memory = {};

  // It comes from model.file.
  bool from_file() const { return std::holds_alternative<TorchScriptLayers>(layers); }
  // It has LSTM layers, whose number of units is model.hidden.
  bool recurrent() const {
    return std::holds_alternative<SequenceLayers>(layers) ||
           std::holds_alternative<SetLayers>(layers);
  }
};

enum class SampleKind { kPicture, kSequence, kSet };  // what one sample of a task is
constexpr auto names_of(SampleKind) { return names("picture", "sequence", "set"); }

// What one sample's target is; kAny: what the loss for a network from a file takes.
enum class Target { kNumbers, kClass, kOrder, kAny };

// The targets of a task with Target::kNumbers.
struct Numbers {
  std::vector<std::string> names = {};  // one per number; columns of predictions
  std::string unit = {};                // "degree"
  std::string error_unit = {};          // "degrees": unit of its errors
};

// What src/synth can draw.
enum class Generator { kNone, kHeads, kScenes, kSets, kSequences };

// What `dtrain synth` and the quick start can generate.
struct Generated {
  Generator generator = Generator::kNone;
  std::vector<std::string> layouts = {};  // the first is the default
  int64_t samples = 0;                    // unless another number is asked for
  std::string text = {};                  // for `dtrain synth --help`
};

struct TaskEntry {
  std::string name;
  std::vector<NetworkEntry> networks = {};  // the first is the task's own
  SampleKind sample = SampleKind::kPicture;
  Target target = Target::kClass;
  Numbers numbers = {};
  // Validation share of converted and generated data; 0: training takes it from its split
  double val_share = 0.1;
  bool from_arrays = false;       // `dtrain convert arrays --task NAME` makes its data
  bool class_weights = false;     // train.class_weights can be used
  bool teacher_forcing = false;   // pointer.* can be used: what a decoder receives while it learns
  bool encoder_phase = false;     // sequence.*, augment.noise and augment.mask_* can be used
  std::string output = "logits";  // name of the output of an exported picture network
  std::string output_scale = {};  // metadata key of the factor from it to the numbers; "": 1
  std::string quickstart = {};    // configuration of a run without data; "": the first task's
  Generated generated = {};

  bool network_from_file() const { return networks.front().from_file(); }
  // train.label_smoothing can be used.
  bool may_have_classes() const { return target == Target::kClass || target == Target::kAny; }
};

// A task or a network by its place in the table. Both are parsed and printed like any enum
// with names.
enum class TaskId : int {};
enum class NetworkId : int { kAuto };  // kAuto: the task's own

const std::vector<std::string>& names_of(TaskId);     // same order as tasks.def
const std::vector<std::string>& names_of(NetworkId);  // "auto", then each network once

std::vector<std::string> task_names(bool (*wanted)(const TaskEntry&));

const TaskEntry& row(TaskId);
const NetworkEntry& row(NetworkId);        // not of kAuto
TaskId task_named(std::string_view name);  // internal error if there is none
NetworkId network_named(std::string_view name);
const NetworkEntry* find_network(std::string_view name);  // nullptr: there is none
bool is_from_file(std::string_view network);              // false, too, if there is none

// How the raw data of a data set are laid out: src/convert has a reader of each.
enum class RawFormat { kArrays, kSets, kPictures, kSequences, k300wlp, kAflw2000, kBiwi };

// What `dtrain convert NAME` reads and `--dataset NAME` trains on.
struct DataSetEntry {
  std::string name;
  std::string task;
  RawFormat format = RawFormat::kArrays;
  std::string config = {};  // embedded configuration of `--dataset NAME`; "": it is not trained on
  int size = 0;             // usual side of the stored pictures in pixels; 0: as they are
  std::string folder = {};  // what is in the folder that is converted; "": a file is converted
  bool cropped = false;     // its annotations crop each picture: `dtrain predict --layout NAME`
  // Whether `dtrain convert NAME` takes --task, --classes, --splits-from-folders, --test-sequences
  bool any_task = false, has_classes = false, splits_from_folders = false, test_sequences = false;
};
const std::vector<DataSetEntry>& data_sets();               // sorted by name
const DataSetEntry* data_set_named(std::string_view name);  // nullptr: there is none
std::vector<std::string> data_set_names();
std::vector<std::string> trainable_data_sets();  // the names of those with a configuration
std::vector<std::string> cropped_data_sets();

}  // namespace dtrain::catalog
