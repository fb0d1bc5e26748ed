#pragma once

// Metrics of a model on a split: each rank takes its share, counts are added over ranks and divided once.

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/store.h"
#include "dist/communicator.h"
#include "monitoring/step_stats.h"
#include "tasks/task.h"
#include "train/precision.h"

namespace dtrain::train {

struct EvaluateOptions {
  int64_t batch_size = 32;
  int threads = 1;
  int prefetch = 4;
  bool verify = false;
  bool skip_bad = false;  // leave out samples that cannot be read
  Precision precision = Precision::kFp32;
  at::Device device = at::kCPU;
  int64_t worst = 0;  // how many of the samples with the largest errors to name
};

struct WorstSample {
  int64_t id = 0;    // in the store
  double error = 0;  // in the task's own measure
};

struct Evaluation {
  monitoring::EvalStats stats;
  int64_t bad_samples = 0;         // left out (skip_bad), all ranks
  std::vector<WorstSample> worst;  // the worst first (NaN is worse than any number); equal ones by id
};

// Collective; every rank gets the same. Leaves the model in eval mode; nothing else of it changes. `progress` is
// told "eval" with each batch and "all_reduce" before what ranks do together (for the watchdog). An empty split gives
// no metrics.
Evaluation evaluate(tasks::Task&, const data::Store&, const std::vector<int64_t>& ids, const std::string& split,
                    const EvaluateOptions&, dist::Communicator& host,
                    const std::function<void(const char* phase)>& progress = {});

// The counts of all ranks, on the CPU. Collective; a rank without a sample has none and learns of them from the others.
tasks::Counts sum_over_ranks(const tasks::Counts& mine, dist::Communicator& host);

// The `count` worst, in order.
std::vector<WorstSample> worst_of(std::vector<WorstSample>, int64_t count);

// What fp64 asks of a batch; nothing for the other precisions (autocast casts inside the network).
void to_precision(data::Batch&, Precision);

// The named metric; Error when there is none of that name (NaN where nothing was evaluated).
double metric(const monitoring::EvalStats&, const std::string& name);

}  // namespace dtrain::train
