#pragma once

// What is learned: a network, what it asks of the data, its loss and its metrics. A task knows nothing of ranks: losses
// are {sum, weight} and metrics are counts, so that they add up over micro-batches and ranks and are divided once.
//
// Tensors are on the device of the batch. Nothing here waits for the device except predict(), check() and summarise().

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/config.h"
#include "core/table.h"
#include "data/batch.h"
#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::tasks {

using Metadata = std::map<std::string, std::string>;  // of model.safetensors

// What a network must know of its data before it is made: from the file when training, from a checkpoint's metadata
// afterwards.
struct DataFacts {
  int64_t features = 0;                    // of a row; 0: images
  int64_t longest = 0;                     // rows of the longest sample of the file; 0: images
  int64_t stored_size = 0;                 // shorter side of the stored images in pixels; 0: no images
  std::vector<std::string> classes = {};   // names, by class number
  std::vector<int64_t> class_counts = {};  // samples of the training split, by class; empty without classes
  double mean_rows = 1;                    // of the training split's inputs
};
DataFacts facts_of(const data::Store&, const std::vector<int64_t>& train_ids);
DataFacts facts_of(
    const Metadata&);  // keys features, longest, stored_size, class_names (joined by '\n'); what is absent stays
Metadata to_metadata(const DataFacts&);  // those keys, without what a fresh DataFacts has

struct Loss {
  at::Tensor sum;         // scalar with a graph: sum over the batch
  at::Tensor weight;      // scalar of the same dtype: what the sum is divided by in the end
  at::Tensor per_sample;  // [B] detached; may be undefined. Names the samples of a loss that is not finite
};

// Float64 on the device. They add up over batches and ranks: the same names and shapes for every batch.
using Counts = std::vector<std::pair<std::string, at::Tensor>>;

struct Counted {
  Counts sums;
  at::Tensor errors;  // [B] float64, the larger the worse (the worst samples that eval names); may be undefined
};

struct MetricSpec {
  std::string name;  // e.g. "mae_yaw"
  bool higher_is_better = false;
  std::string unit = {};  // e.g. "degrees": metrics of one unit share an axis of the plot; "": of the loss alone
};
inline MetricSpec share_metric(std::string name) {  // accuracy, precision, F1, ...: 1 is perfect
  return {.name = std::move(name), .higher_is_better = true, .unit = "share"};
}

using Table = dtrain::Table;

struct Summary {
  std::vector<std::pair<std::string, double>> metrics;  // in the order of Task::metrics()
  std::vector<Table> tables;
};

using Value = std::variant<double, int64_t, std::string, std::vector<double>, std::vector<int64_t>>;
using Row = std::vector<Value>;

class Task {
 public:
  virtual ~Task() = default;
  virtual torch::nn::Module& model() = 0;
  virtual const data::SampleSpec& samples() const = 0;
  // DataError if the file is not for this task. Before samples() is used with its file: what that asks of a target may
  // follow from the file.
  virtual void check(const data::Store&) = 0;

  virtual Loss loss(const data::Batch&) = 0;
  // Weight that `samples` samples will have. Need not be exact, but equal on all ranks.
  virtual double planned_weight(int64_t samples) const = 0;

  virtual Counted count(const data::Batch&) = 0;              // the model is in eval mode
  virtual Summary summarise(const Counts& totals) const = 0;  // on the CPU; the one place where metrics are divided
  virtual std::vector<MetricSpec> metrics() const = 0;        // "loss" first; the second is the primary one

  virtual std::vector<std::string> columns() const = 0;      // of predict
  virtual std::vector<Row> predict(const data::Batch&) = 0;  // one row per sample; the targets need not be there
  virtual Metadata metadata() const = 0;                     // what inference needs, for the checkpoint

  // Phases: which parameters are trained and what loss() means, as a function of the epoch. Entering one sets
  // requires_grad of every parameter that a phase changes (freezing by name comes after it and wins).
  virtual std::string phase(int64_t /*epoch*/) const { return "train"; }
  virtual void enter_phase(const std::string& /*phase*/) {}
  // Before training of so many epochs, fewer than train.epochs where train.max_steps ends it sooner: what to warn of,
  // or
  // "". ConfigError when what is wanted of the network would never be trained, unless for max_steps: who cuts a run
  // short knows it.
  virtual std::string check_epochs(int64_t /*epochs*/, bool /*by_max_steps*/) const { return ""; }
  // Whether training in this phase moves `metric` of metrics(): elsewhere it tells nothing of the training.
  virtual bool trains(const std::string& /*metric*/) const { return true; }
  virtual double lr_ratio(const std::string& /*parameter*/) const { return 1; }  // factor of optimizer.lr in this phase
};

std::unique_ptr<Task> make_task(const config::Config&, const DataFacts&);

// The configuration that makes the task of a checkpoint again, for eval, predict and export: task, model.*, and no
// augmentation. CheckpointError when the metadata do not say enough.
config::Config config_of(const Metadata&);

}  // namespace dtrain::tasks
