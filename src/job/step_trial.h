#pragma once

// A run in measurements: its steps with other batches, in place of the training. It has no run
// folder and no sinks. A trial owns what its steps borrow, so that a run may have several, one at a
// time. The last step of the last one is followed by ConnectedRun::end_watch().
//
// Thread-safety: the training thread. Ownership: borrows the run, which must not be moved.

#include <cstdint>
#include <functional>
#include <optional>

#include "config/config.h"
#include "data/order/splits.h"
#include "job/training_job.h"
#include "monitoring/sink.h"
#include "train/batch_arithmetic.h"
#include "train/step_runner.h"

namespace dtrain::job {

struct StepTrialOptions {
  int64_t batch_size = 0, accumulate = 1;
  // Changes the trial's copy of the configuration: keys of the loader and of the step. The network
  // is the run's.
  std::function<void(config::Config&)> change = {};
  trace::Recorder* recorder = nullptr;  // records what the threads do
  // All steps have as many samples, so that their mean is the time of each: what is left of an
  // epoch is left out. (An epoch of less than one step is one step.)
  bool whole_steps = false;
};

class StepTrial {
 public:
  StepTrial(const ConnectedRun&, const StepTrialOptions&);

  // The first call makes it, which may find the memory full: an error of LibTorch, for which the
  // context has words (train/device_failure.h). Collective then.
  train::StepRunner& runner();
  const train::TrainContext& context() const { return context_; }

 private:
  const config::Config config_;
  const data::Splits splits_;  // training samples alone
  const train::BatchArithmetic batches_;
  monitoring::Sinks no_sinks_;
  train::TrainContext context_;
  std::optional<train::StepRunner> runner_;
};

}  // namespace dtrain::job
