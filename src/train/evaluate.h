#pragma once

// Metrics of a model on a split. Each rank counts on its share of the samples; the counts are added
// over ranks and divided once, so that the result does not depend on the number of ranks.

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/parallel.h"
#include "data/loader/checksum_budget.h"
#include "data/store.h"
#include "dist/communicator.h"
#include "monitoring/step_stats.h"
#include "tasks/task.h"
#include "train/phase_tracker.h"
#include "train/precision.h"

namespace dtrain::train {

struct EvaluateOptions {
  int64_t batch_size = 32;
  int threads = 1;
  int prefetch = 4;
  data::Verify verify = data::Verify::kNever;
  bool skip_bad = false;  // leave out samples that cannot be read
  Precision precision = Precision::kFp32;
  at::Device device = at::kCPU;
  int64_t worst = 0;  // the number of samples with the largest errors to name
  // Progress of all ranks, estimated from this one; called before the first batch and after each
  ReportProgress report = {};
  const char* stage = "";  // for the reports
  // Called by all ranks between batches, with the same answer on all of them: true ends the
  // evaluation early.
  std::function<bool()> stop = {};
};

struct WorstSample {
  int64_t id = 0;    // sample ID in the store
  double error = 0;  // see tasks::Counted::errors
};

struct Evaluation {
  bool stopped = false;  // ended early by EvaluateOptions::stop: the rest is meaningless
  monitoring::EvalStats stats;
  int64_t bad_samples = 0;  // left out (skip_bad), over all ranks
  // The worst first (NaN is worse than any number); equal ones by id
  std::vector<WorstSample> worst;
};

// Evaluates `ids`, the samples of the split that is named `split`. Collective; every rank gets the
// same result. Leaves the model in eval mode and changes nothing else of it. A split without
// samples has no metrics. `tracker` (may be null) receives the end of each batch, and when this
// rank waits for others.
Evaluation evaluate(tasks::Task&, const data::Store&, const std::vector<int64_t>& ids,
                    const std::string& split, const EvaluateOptions&, dist::Communicator& host,
                    PhaseTracker* tracker = nullptr);

// The sums over ranks, on the CPU. Collective. A rank without samples passes no counts and gets the
// same sums.
tasks::Counts sum_over_ranks(const tasks::Counts& mine, dist::Communicator& host);

// The `count` samples with the largest errors, in the order of Evaluation::worst.
std::vector<WorstSample> worst_of(std::vector<WorstSample>, int64_t count);

// Converts the batch to float64 for fp64. Does nothing for the other precisions: autocast casts
// inside the network.
void to_precision(data::Batch&, Precision);

// The value of the metric; NaN if nothing was evaluated. Error if there is no metric of this name.
double metric(const monitoring::EvalStats&, const std::string& name);

}  // namespace dtrain::train
