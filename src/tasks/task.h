#pragma once

// What is learned: a network, what it asks of the data, its loss and its metrics. The trainer runs
// any task and knows none; a task knows nothing of ranks. Losses are a sum and a weight, and
// metrics are counts, so that both add up over micro-batches and ranks and are divided once.
//
// Tensors are on the device of the batch. Only predict(), check() and summarise() wait for
// the device.
// Thread-safety: one thread.

#include <torch/nn/module.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "data/sample_spec.h"
#include "data/store.h"
#include "tasks/facts.h"
#include "tasks/loss.h"
#include "tasks/metrics.h"

namespace dtrain::tasks {

using Value = std::variant<double, int64_t, std::string, std::vector<double>, std::vector<int64_t>,
                           std::vector<std::string>>;
using Row = std::vector<Value>;

// A part of the training, whole epochs long: what learns in it and which metrics it moves. Most
// tasks have one phase in which everything learns.
struct TrainingPhase {
  std::string name = "train";
  // Factor of optimizer.lr for a parameter of this name; 0: it does not learn in this phase. Empty:
  // 1 for all, and what the network itself keeps from learning stays so.
  std::function<double(const std::string& parameter)> lr_ratio = {};
  // The metrics that training in this phase moves; in the others they tell nothing of the training.
  // Empty: all.
  std::vector<std::string> metrics = {};

  bool moves(const std::string& metric) const {
    return metrics.empty() || std::ranges::count(metrics, metric) > 0;
  }
};

class Task {
 public:
  virtual ~Task() = default;
  virtual torch::nn::Module& model() = 0;
  virtual const data::SampleSpec& samples() const = 0;
  // DataError if the file is not for this task. Call it before samples() is used with this file:
  // what samples() asks of a target may depend on the file.
  virtual void check(const data::Store&) = 0;

  virtual Loss loss(const data::Batch&) = 0;
  // What the host decides in loss() beside the shape of the batch, as a number: a CUDA graph of one
  // batch does not stand for another one with another number.
  virtual int64_t decisions(const data::Batch&) const { return 0; }
  // Weight that `samples` samples will have. Need not be exact, but must be equal on all ranks.
  virtual double planned_weight(int64_t samples) const = 0;

  virtual Counted count(const data::Batch&) = 0;  // Requires: the model is in eval mode.
  // Totals on the CPU; the one place that divides them
  virtual Summary summarise(const Counts& totals) const = 0;
  virtual std::vector<MetricSpec> metrics() const = 0;  // "loss" first; exactly one is primary

  virtual std::vector<std::string> columns() const = 0;  // names of the columns of predict()
  // One row per sample; does not need the targets
  virtual std::vector<Row> predict(const data::Batch&) = 0;
  virtual Metadata metadata() const = 0;  // what inference needs, for the checkpoint

  virtual TrainingPhase phase(int64_t /*epoch*/) const { return {}; }
  // From now on `phase` is trained: sets requires_grad of the parameters by its lr_ratio, and what
  // loss() means. (Freezing by name comes after it and wins.)
  void enter(const TrainingPhase& phase);
  // Before a training of `epochs` epochs, which are fewer than train.epochs where train.max_steps
  // ends it sooner. Returns a warning, or "". ConfigError when a part of the network would never be
  // trained, except with max_steps, with which people cut a run short on purpose.
  virtual std::string check_epochs(int64_t /*epochs*/, bool /*by_max_steps*/) const { return ""; }

 private:
  virtual void entered(const TrainingPhase&) {}
};

std::unique_ptr<Task> make_task(const config::Config&, const DataFacts&);

}  // namespace dtrain::tasks
