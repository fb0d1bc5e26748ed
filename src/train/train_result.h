#pragma once

// How a training ended, and what came out of it: for the last line of a run, its verdict and its
// exit code.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/evidence.h"
#include "monitoring/step_stats.h"

namespace dtrain::train {

struct TrainResult {
  int exit_code = 0;        // kExitStoppedOnRequest after a request to stop
  std::string reason;       // why training stopped, as part of a sentence
  int64_t steps = 0;        // optimizer steps since the run began
  int64_t own_steps = 0;    // steps of this process: a resumed run did the others before
  uint64_t ledger = 0;      // over all ranks, see data/order/ledger.h
  std::string metric;       // the watched metric (train.metric)
  double best = 0;          // its best value on the validation split; NaN: never evaluated
  int64_t bad_samples = 0;  // different samples that were left out, over all ranks
  // Share of padding in all batches of this process
  double padding_waste = monitoring::StepStats::kUnknown;
  std::vector<std::pair<std::string, double>> validation;  // all metrics of the last evaluation
  diagnose::RunEvidence evidence;                          // rank 0: for the verdict
  double seconds = 0;                                      // duration of the whole loop
};

}  // namespace dtrain::train
