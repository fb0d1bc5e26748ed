#pragma once

// The training loop. trainer.cpp is the file to read first: step() is one optimizer step in about thirty lines, each of
// them a verb of docs/design.md, section 5. What it tells and evaluates is in trainer_report.cpp, what is saved and
// restored in trainer_state.cpp.
//
// Thread-safety: one thread; `stop_requested` may be set from a signal handler. Ownership: owns phases (reducer,
// optimizers), scaler, loader and clock; borrows all of Parts.

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "checkpoint/store.h"
#include "config/config.h"
#include "core/error.h"
#include "data/loader/loader.h"
#include "data/order/ledger.h"
#include "data/order/splits.h"
#include "data/store.h"
#include "dist/communicator.h"
#include "monitoring/sink.h"
#include "tasks/task.h"
#include "train/bad_loss.h"
#include "train/batch_arithmetic.h"
#include "train/evaluate.h"
#include "train/grad_scaler.h"
#include "train/metric_watch.h"
#include "train/pace.h"
#include "train/phase_clock.h"
#include "train/phases.h"
#include "train/precision.h"
#include "train/step_agreement.h"
#include "train/weight_average.h"

namespace dtrain::train {

struct TrainingState;

struct Parts {
  const config::Config& config;
  const BatchArithmetic& batches;
  tasks::Task& task;
  const data::Store& store;
  const data::Splits& splits;
  at::Device device;
  Precision precision;
  int loader_threads;
  dist::Communicator& gradients;
  dist::Communicator& host;
  dist::Communicator* statistics;  // of the model's device, for train.sync_batch_norm alone; nullptr: not synchronised
  checkpoint::Store* checkpoints;  // rank 0's; nullptr on the others, and without config.run.name: nothing is saved
  monitoring::Sinks& sinks;
  const std::atomic<bool>& stop_requested;
  std::function<void(const char* phase, int64_t step)> progress;  // for the watchdog
};

struct Outcome {
  int exit_code = 0;
  std::string reason;  // why training stopped, for the last line
  int64_t steps = 0;
  int64_t own_steps = 0;  // of this process's life (a resumed run did fewer itself)
  uint64_t ledger = 0;
  std::vector<std::pair<std::string, double>> validation;  // metrics of the last evaluation
  std::string metric;                                      // that is watched
  double best = 0;                                         // of it on the validation split; NaN: never evaluated
  double padding_waste = monitoring::StepStats::kUnknown;  // of the whole of this process's life
  int64_t bad_samples = 0;                                 // left out, all ranks
  PhaseClock::Seconds phases{};                            // of this rank
  double seconds = 0;                                      // of the loop
};

// What to say when the device's memory is full: batch, peak, and the flags that train the same with half the memory.
DeviceError out_of_memory(const BatchArithmetic&, at::Device);

class Trainer {
 public:
  // Errors of construction and run(): those of the parts; DeviceError out_of_memory(); NumericsError.
  explicit Trainer(Parts);
  ~Trainer();

  // Takes over a checkpoint: weights, optimizer, scaler, position, ledger; at the same world size also generators and
  // this rank's own statistics. CheckpointError when it belongs to another network. Every rank has the same snapshot.
  void resume(const checkpoint::Snapshot&);
  Outcome run();

 private:
  Outcome train();
  monitoring::StepStats step();
  void report(monitoring::StepStats&);
  // One micro-batch forward and backward. Without samples: nothing, unless batch norm waits for this rank.
  void forward_backward(data::Batch, int64_t power_of_two);
  void read_device(monitoring::StepStats&);  // the one synchronisation, on logging steps only
  void check_losses();  // NumericsError naming the samples of a loss that was not finite; collective
  void check_finite(const monitoring::StepStats&, int64_t skipped_now);  // NumericsError; collective
  // Collective: sums over ranks; and metrics of a split, with averaged weights (train.ema) and the statistics' mean
  // over ranks (the model is left in eval mode).
  struct Consumed {
    uint64_t ledger = 0;
    int64_t rows = 0, cells = 0;  // of padded batches: valid ones, and with the padding; 0: no such batches
    int64_t left_out = 0;         // by each rank, added up
    int64_t bad_samples = 0;      // the different ones among them
  };
  Consumed consumed_by_all();
  void check_samples_are_left() const;  // DataError on all ranks, or none
  monitoring::EvalStats evaluate_split(const std::vector<int64_t>& ids, const char* split);
  void evaluate_and_watch();
  void watch(double metric);
  void save(const char* why);
  void protect_best();  // the best checkpoint so far, when older ones are removed
  void resume_watch(const TrainingState&);
  void set_train_mode();
  checkpoint::Snapshot snapshot();  // collective
  int64_t epoch_of(int64_t step) const { return step / parts_.batches.steps_per_epoch; }
  bool logs(int64_t step) const;
  bool begins_phase() const;  // the step that comes is the first of another phase
  static double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  Parts parts_;
  data::Loader loader_;
  GradScaler scaler_;
  Phases phases_;
  WeightAverage average_;
  BadLosses bad_losses_;
  PhaseClock clock_;
  StepAgreement agreement_;

  int64_t step_ = 0;          // optimizer steps done
  int64_t first_step_ = 0;    // where this process began
  int64_t samples_seen_ = 0;  // of this rank
  data::Ledger ledger_;       // of this rank; rank 0's begins with the resumed sum
  int64_t rows_ = 0, cells_ = 0;
  Consumed consumed_;                                       // at the last report
  double loss_ = std::numeric_limits<double>::quiet_NaN();  // that was reported last
  Pace save_pace_, eval_pace_, log_pace_;
  bool log_now_ = false;  // by time: the next step is a logging step
  tasks::MetricSpec watched_;
  MetricWatch watch_;
  Plateau plateau_;
  bool evaluation_owed_ = false;  // at step_: of the run that is resumed, which was asked to stop
  double memory_total_;           // bytes of the device
  Outcome outcome_;
  std::chrono::steady_clock::time_point started_, last_report_;
  int64_t last_report_step_ = 0, samples_since_report_ = 0, loader_bytes_ = 0;
  PhaseClock::Seconds seconds_at_report_{};
  int64_t skipped_ = 0, skipped_in_a_row_ = 0, skips_checked_at_ = 0;
  int64_t saved_step_ = -1;  // of the newest checkpoint written by this process
};

// The metric that train.metric names, or the task's primary one. ConfigError for one that the task does not have.
tasks::MetricSpec watched_metric(const tasks::Task&, const std::string& name);

}  // namespace dtrain::train
