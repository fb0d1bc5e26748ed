#pragma once

// Metrics of a model on a split: each rank takes its share, sums and weights are added over ranks and divided once.

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/store.h"
#include "dist/communicator.h"
#include "monitoring/step_stats.h"
#include "tasks/task.h"
#include "train/autocast.h"

namespace dtrain::train {

struct EvaluateOptions {
  int64_t batch_size = 32;
  int threads = 1;
  int prefetch = 4;
  bool verify = false;
  Precision precision = Precision::kFp32;
  at::Device device = at::kCPU;
};

// Collective. Leaves the model in eval mode; nothing else of it changes. `on_batch` is called after
// each batch (progress of the watchdog). An empty split gives no metrics.
monitoring::EvalStats evaluate(tasks::Task&, const data::Store&, const std::vector<int64_t>& ids,
                               const std::string& split, const EvaluateOptions&, dist::Communicator& host,
                               const std::function<void()>& on_batch = {});

// What fp64 asks of a batch; nothing for the other precisions (autocast casts inside the network).
void to_precision(data::Batch&, Precision);

}  // namespace dtrain::train
