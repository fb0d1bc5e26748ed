#pragma once

// The training loop: optimizer steps (step_runner.h), what is said of them (run_observer.h), and,
// here, when the run saves, evaluates and stops. Read train() in trainer.cpp first.
//
// Every rank has a Trainer and calls the same methods in the same order. run() is collective;
// resume() is not. Thread-safety: none; one thread uses it. Ownership: borrows what TrainContext
// refers to.

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "train/interval_trigger.h"
#include "train/metric_watch.h"
#include "train/run_observer.h"
#include "train/step_agreement.h"
#include "train/step_runner.h"
#include "train/train_context.h"
#include "train/train_result.h"

namespace dtrain::train {

class Trainer {
 public:
  // Throws what the parts throw, such as ConfigError for an unknown train.metric.
  explicit Trainer(TrainContext);

  // Continues a checkpoint, with what its evaluations decided. `snapshot` is the same on every
  // rank. CheckpointError if it is of another network.
  void resume(const checkpoint::Snapshot& snapshot);

  // Trains to the end of the run, to an early stop, or until a rank is requested to stop; call it
  // once. DataError: no training sample can be read. NumericsError: the loss or gradient is not
  // finite, on all ranks alike. DeviceError: device_failure(). And what the communicators throw.
  TrainResult run();

 private:
  // trainer.cpp: the loop
  TrainResult train();
  void begin();
  void enter_task_phase();
  bool logs_next_step() const;
  Requests exchange_requests();
  bool take_verdict_request();  // whether there was one since the last call
  void stop_on_request();
  bool stops_early() const { return watched_.watch.wants_to_stop(context_.config.train.patience); }
  std::string reason_to_stop() const;
  TrainResult conclude();
  // data.verify first_epoch: the step in which that epoch ends.
  int64_t verified_until() const {
    return (context_.verified_epoch + 1) * context_.batches.steps_per_epoch;
  }

  // trainer_evaluate.cpp. Evaluations may be asked to stop before they are done. Then they return
  // false (no statistics), and what is left to do is owed: the resumed run does it. Collective.
  bool make_up_evaluation();  // that a checkpoint owes
  bool evaluate_and_watch();
  bool test();
  // Uses the averaged weights (train.ema) and the mean of the ranks' statistics; leaves the model
  // in eval mode.
  std::optional<monitoring::EvalStats> evaluate_split(const std::vector<int64_t>& ids,
                                                      const char* split);
  void watch(double metric);

  // trainer_save.cpp
  void save(const char* why);
  void add_decisions(TrainingState&) const;
  void resume_watch(const TrainingState&);
  void protect_best();  // the best checkpoint so far is kept when older ones are removed

  struct Triggers {
    IntervalTrigger save, evaluate, log;
  };
  struct Watched {
    tasks::MetricSpec metric;
    MetricWatch watch;
    Plateau plateau;
    bool evaluation_owed = false;  // at this step: not done yet
    int64_t evaluated_step = -1;   // at which result_.validation was measured
  };

  StepRunner steps_;
  const TrainContext& context_;
  RunObserver observer_;
  StepAgreement agreement_;
  Triggers triggers_;
  Watched watched_;
  int64_t saved_step_ = -1;  // newest checkpoint that this process wrote or resumed
  std::chrono::steady_clock::time_point started_;
  TrainResult result_;
};

}  // namespace dtrain::train
