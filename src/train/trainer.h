#pragma once

// The training loop. trainer.cpp is the file to read first: step() is one optimizer step in about thirty lines, each of
// them a verb of docs/design.md, section 5. What is saved and restored is in trainer_state.cpp.
//
// Thread-safety: one thread; `stop_requested` may be set from a signal handler. Ownership: owns reducer, optimizer,
// scaler, loader and clock; borrows all of Parts.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/store.h"
#include "config/config.h"
#include "core/error.h"
#include "data/ledger.h"
#include "data/loader.h"
#include "data/store.h"
#include "dist/communicator.h"
#include "dist/gradient_reducer.h"
#include "monitoring/sink.h"
#include "tasks/task.h"
#include "train/autocast.h"
#include "train/batch_arithmetic.h"
#include "train/evaluate.h"
#include "train/grad_scaler.h"
#include "train/optimizer.h"
#include "train/phase_clock.h"
#include "train/step_agreement.h"

namespace dtrain::train {

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
  checkpoint::Store* checkpoints;  // rank 0; nullptr on the others, and where nothing is to be saved (--dry-run)
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
  std::vector<std::pair<std::string, double>> validation, test;  // metrics of the last evaluations
  double best = 0;               // of the primary metric on the validation split; NaN: never evaluated
  PhaseClock::Seconds phases{};  // of this rank
  double seconds = 0;            // of the loop
};

// What to say when the device's memory is full: batch, peak, and the flags that train the same with half the memory.
DeviceError out_of_memory(const BatchArithmetic&, at::Device);

class Trainer {
 public:
  // Errors of construction and run(): those of the parts; DeviceError out_of_memory(); NumericsError.
  explicit Trainer(Parts);
  ~Trainer();

  // Takes over a checkpoint: weights, optimizer, scaler, position, ledger; at the same world size also generators and
  // this rank's own statistics. CheckpointError when it belongs to another network. Collective; every rank has the same
  // content.
  void resume(const checkpoint::Content&);
  Outcome run();

 private:
  Outcome train();
  monitoring::StepStats step();
  void report(monitoring::StepStats&);
  // Collective: the sum over ranks; and metrics of a split, with the statistics' mean over ranks (the model is left in
  // eval mode).
  uint64_t global_ledger();
  monitoring::EvalStats evaluate_split(const std::vector<int64_t>& ids, const char* split);
  void evaluate_and_keep_best();
  void save(const char* why);
  void set_train_mode();
  checkpoint::Content content();  // collective
  int64_t epoch_of(int64_t step) const { return step / parts_.batches.steps_per_epoch; }
  bool logs(int64_t step) const;

  Parts parts_;
  data::Loader loader_;
  GradScaler scaler_;
  dist::GradientReducer reducer_;
  Optimizer optimizer_;
  PhaseClock clock_;
  StepAgreement agreement_;

  int64_t step_ = 0;          // optimizer steps done
  int64_t first_step_ = 0;    // where this process began
  int64_t samples_seen_ = 0;  // of this rank
  data::Ledger ledger_;       // of this rank; rank 0's begins with the resumed sum
  double best_;
  int64_t best_step_ = -1;
  double memory_total_;  // bytes of the device
  Outcome outcome_;
  std::chrono::steady_clock::time_point started_, last_save_, last_report_;
  int64_t last_report_step_ = 0, samples_since_report_ = 0, loader_bytes_ = 0;
  PhaseClock::Seconds phases_at_report_{};
  int64_t skipped_ = 0, skipped_in_a_row_ = 0, skips_checked_at_ = 0;
  int64_t saved_step_ = -1;  // of the newest checkpoint written by this process
};

}  // namespace dtrain::train
