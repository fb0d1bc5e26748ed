#pragma once

// The run that is tuned, as it is given, and what of it may be changed: known before anything is
// tried, and the same on all ranks but for `options.memory_budget` and `budget`.

#include <cstdint>
#include <string>
#include <vector>

#include "config/load.h"
#include "job/process_context.h"
#include "tune/memory_budget.h"
#include "tune/settings.h"
#include "tune/step_batches.h"

namespace dtrain::tune {

struct TuneOptions {
  double seconds = 3;              // longest measurement of one candidate
  double minutes = 10;             // about how long it may take
  int64_t memory_budget = 0;       // bytes of a rank; 0: its share of what is there
  bool free_global_batch = false;  // the global batch may change with the batch
  bool range_test = false;         // range test of the learning rate
};

struct TunedRun {
  TuneOptions options = {};
  // The configuration is resolved, with the given settings: each trial puts others into it.
  config::Loaded loaded = {};
  std::string device = {};  // "cpu", or the name of the GPU
  StepBatches batches = {};
  TunedSettings given = {};
  Freedom freedom = {};
  std::vector<std::string> kept = {};  // the keys that flags set, for people
  Budget budget = {};
  int64_t most = 1;    // the largest micro-batch that the run can use
  int capability = 0;  // the least of the GPUs; 0: the CPU

  const config::Config& config() const { return loaded.config; }
};

// Options other than memory_budget are rank 0's: ranks with others would wait for each other.
// Errors as of a training. Collective.
TunedRun look_at(job::ProcessContext&, config::Loaded, const TuneOptions&);

}  // namespace dtrain::tune
