#pragma once

// What is learned: a network, what it asks of the data, its loss and its metrics. A task knows nothing of ranks.
// Losses and metrics are {sum, weight}, so that they add up over micro-batches and ranks and are divided once.

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "data/loader.h"
#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::tasks {

struct Loss {
  at::Tensor sum;     // scalar with a graph: sum over the batch
  at::Tensor weight;  // scalar of the same dtype: what the sum is divided by in the end
};

struct Metric {
  std::string name;  // e.g. "mae_yaw"
  at::Tensor sum;    // scalars, float64, on the device
  at::Tensor weight;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual torch::nn::Module& model() = 0;
  virtual const data::SampleSpec& samples() const = 0;
  virtual void check(const data::Store&) const = 0;          // DataError if the file is not for this task
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;  // what predict and export see
  virtual Loss loss(const data::Batch&) = 0;
  virtual double planned_weight(int64_t samples) const = 0;         // weight that `samples` samples will have
  virtual std::vector<Metric> evaluate(const data::Batch&) = 0;     // includes "loss"
  virtual std::string primary_metric() const = 0;                   // lower is better, e.g. "mae"
  virtual std::map<std::string, std::string> metadata() const = 0;  // what inference needs, for the checkpoint
};

std::unique_ptr<Task> make_task(const config::Config&);  // ConfigError for an unknown name
std::vector<std::string> task_names();

}  // namespace dtrain::tasks
