#pragma once

// The training loop. Read trainer.cpp first: train() is the run and step() one optimizer step, each
// line a verb of docs/design.md, section 5. Reports and evaluations are in trainer_report.cpp,
// checkpoints in trainer_state.cpp.
//
// Every rank has a Trainer and calls the same methods in the same order. run() is collective;
// resume() is not. Thread-safety: none; one thread uses it. Ownership: owns everything that lives
// as long as the loop (loader, reducer, optimizers, loss scale, averaged weights); borrows all
// of TrainContext.

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/batch.h"
#include "data/loader/loader.h"
#include "data/loader/replay.h"
#include "device/device.h"
#include "dist/cost_fit.h"
#include "dist/gradient_reducer.h"
#include "measure/resource_meter.h"
#include "measure/run_measurements.h"
#include "train/bad_loss.h"
#include "train/consumption.h"
#include "train/grad_scaler.h"
#include "train/interval_trigger.h"
#include "train/measured_steps.h"
#include "train/metric_watch.h"
#include "train/phase_tracker.h"
#include "train/phases.h"
#include "train/report_window.h"
#include "train/shared_statistics.h"
#include "train/skipped_steps.h"
#include "train/step_agreement.h"
#include "train/step_state.h"
#include "train/train_context.h"
#include "train/train_result.h"
#include "train/weight_average.h"

namespace dtrain::train {

struct TrainingState;

class Trainer {
  using SteadyTime = std::chrono::steady_clock::time_point;

 public:
  // Throws what the parts throw, such as ConfigError for an unknown train.metric. On a GPU without
  // enough memory for gradients and moments that is an error of LibTorch, see device_failure().
  explicit Trainer(TrainContext);
  ~Trainer();

  // Continues a checkpoint: weights, optimizer, loss scale, position in the data, ledger; at the
  // same world size also the random generators and this rank's own statistics. `snapshot` is the
  // same on every rank. CheckpointError if it is of another network.
  void resume(const checkpoint::Snapshot& snapshot);

  // Trains to the end of the run, to an early stop, or until a rank is requested to stop; call
  // it once.
  // DataError: no training sample can be read. NumericsError: the loss or gradient is not finite,
  // on all ranks alike. DeviceError: device_failure(). And what the communicators throw.
  TrainResult run();

  // For measurements: from now on steps are of the phase that this epoch has, however many there
  // are. Collective.
  void measure_phase_of(int64_t epoch);
  // For measurements, in place of run(): trains `steps` optimizer steps, without reports,
  // evaluations and checkpoints. It may be called again. Calls `issued` when this rank has issued
  // all that its device has to do in them, and before it waits for the device. Errors of the device
  // are those of LibTorch. Collective.
  MeasuredSteps measure(int64_t steps, const std::function<void()>& issued = {});
  // One optimizer step at this learning rate, whatever the schedule says. Returns the loss of its
  // samples before the step, which may not be finite. Collective.
  double step_at(double learning_rate);
  // Trains `steps` more, and returns the buckets of gradients in the order of sending, each with
  // the median of when it was full. Empty if this rank had no samples in them. Collective, as
  // measure() is.
  std::vector<dist::BucketTime> time_buckets(int64_t steps);
  // Runs forward and backward of the next micro-batch twice, measures the second time, and puts the
  // batch back; where samples have no fixed size, of the largest samples, because any micro-batch
  // has to fit. Neither gradients nor statistics of batch norm are sent: a rank whose memory is
  // full throws here, where no other rank waits for it. Collective, as measure() is.
  StepMemory measure_memory();
  // For about `seconds`, steps whose batches are in memory already: the rate that a run would have
  // if loading were free. The training that follows is the same, bit by bit, as without
  // it. Collective.
  MeasuredSteps measure_headroom(double seconds);

 private:
  // trainer.cpp
  TrainResult train();
  void begin();
  void stop_on_request();
  bool make_up_evaluation();  // that a checkpoint owes; as evaluate_and_watch()
  void enter_task_phase();
  Requests exchange_requests();
  bool take_verdict_request();  // whether there was one since the last call
  monitoring::StepStats step();
  data::Batch next_batch();
  // What a micro-step does, apart from its tensors: all that the host decides in it.
  struct Role {
    bool last;             // of its optimizer step: the gradients are reduced and used
    bool runs;             // forward and backward: this rank has samples, or others wait for it
    bool has_samples;      // false: a sample of zeros takes their place
    int64_t power_of_two;  // loss_power_of_two()
  };
  Role role_of(const data::Batch&) const;
  void write_state(const data::Batch&);  // the numbers of the step that the batch belongs to
  // All that the device does for a micro-step, with what changes between steps in tensors alone:
  // what a CUDA graph of this role and of this shape of the batch would hold.
  void micro_step(data::Batch, const Role&);
  void forward_backward(data::Batch, const Role&);
  void update(
      const Role&);  // the optimizer step, from reduced gradients, which are zero afterwards
  double next_learning_rate() const;
  bool logs_step() const;                    // whether the last step is a logging step
  void read_device(monitoring::StepStats&);  // waits for the device, on logging steps only
  TrainResult conclude();
  std::string reason_to_stop() const;
  std::string where() const;  // "in step 3, phase forward"
  void set_train_mode();
  int64_t epoch_of(int64_t step) const { return step / context_.batches.steps_per_epoch; }
  bool stops_early() const { return watched_.watch.wants_to_stop(context_.config.train.patience); }

  // trainer_measure.cpp
  // as every step of a run ends, but no request is taken: the run itself answers it
  void end_measured_step();
  void probe_network();   // once: the cost of an all-reduce; nothing on one rank, and for a very
                          // short run
  void probe_headroom();  // where it is asked for
  std::unique_ptr<data::Loader> loader_of_largest_batch() const;  // of one micro-batch

  // trainer_report.cpp
  void report(monitoring::StepStats&);
  measure::RankSample used_resources();  // since the last call
  // Of the steps since the last call. Requires: the clock is synchronized. Collective.
  void gather_measurements(const measure::RankSample&, bool of_steps_alone = true);
  diagnose::RunEvidence evidence();  // what was measured so far; rank 0
  // Rank 0: to the sinks as soon as there are enough steps and then each minute, and to people
  // on request.
  void judge_so_far();
  std::vector<monitoring::CollectiveStats> collectives() const;
  void check_run_folder();  // OutputError; collective
  // data.verify first_epoch: the step in which that epoch ends, and a line where it was not
  // compared as a whole.
  int64_t verified_until() const {
    return (context_.verified_epoch + 1) * context_.batches.steps_per_epoch;
  }
  void say_what_was_compared() const;
  void check_samples_are_left(int64_t bad_samples) const;  // DataError
  void check_losses();  // NumericsError that names samples; collective
  void check_finite(const monitoring::StepStats&,
                    int64_t skipped_now);  // NumericsError; collective
  void set_state(monitoring::RunState);    // of all sinks
  // These three may be asked to stop before they are done. Then they return false (no statistics),
  // and what is left to do is owed: the resumed run does it. Collective.
  bool evaluate_and_watch();
  bool test();
  // Uses the averaged weights (train.ema) and the mean of the ranks' statistics; leaves the model
  // in eval mode.
  std::optional<monitoring::EvalStats> evaluate_split(const std::vector<int64_t>& ids,
                                                      const char* split);
  void watch(double metric);

  // trainer_state.cpp
  void save(const char* why);
  checkpoint::Snapshot snapshot();
  void resume_watch(const TrainingState&);
  int64_t resume_rank(
      const checkpoint::NamedTensors& own);  // returns the samples that the rank has seen
  std::function<void()> keep_state();  // copies all that a step changes; the result puts it back
  void protect_best();  // the best checkpoint so far is kept when older ones are removed

  struct Triggers {
    IntervalTrigger save, evaluate, log;
  };
  struct Watched {
    tasks::MetricSpec metric;
    MetricWatch watch;
    Plateau plateau;
    bool evaluation_owed = false;  // of this step: not done yet
  };

  TrainContext context_;
  data::Loader loader_;
  StepState state_;
  std::optional<data::Replay> replay_;  // takes the place of the loader while headroom is measured
  GradScaler scaler_;
  Phases phases_;
  WeightAverage average_;
  BadLosses bad_losses_;
  PhaseTracker tracker_;
  SharedStatistics shared_statistics_;
  StepAgreement agreement_;
  Triggers triggers_;
  Watched watched_;
  Consumption consumption_;
  ReportWindow window_;
  std::vector<std::string> nodes_;  // host names by rank, known when the run begins
  measure::RunMeasurements measurements_;
  measure::ResourceMeter meter_;
  measure::Values of_run_ = {};  // what counts since the run began, as reported last
  diagnose::RareEvents evaluations_, saves_, saves_of_best_;
  std::optional<dist::CostFit> all_reduce_cost_;  // probe_network()
  dist::Traffic gradients_before_{},
      statistics_before_{};        // carried before training, by the probes
  MeasuredSteps headroom_;         // of this phase of the task; no steps: it was not measured
  SteadyTime next_verdict_{};      // when rank 0 judges the run again
  size_t steps_of_resources_ = 0;  // that had ended when used_resources() was called last
  SkippedSteps skipped_;
  device::Properties device_;  // of this rank
  int64_t step_ = 0;           // optimizer steps done
  int64_t begun_step_ = 0;     // the step that began last, counted from 1
  std::string
      left_alone_;  // what was left out of a micro-batch of which one sample is left; else ""
  int64_t logged_own_step_ = 0;  // of result_.own_steps, at the newest logging step
  int64_t saved_step_ = -1;      // of the newest checkpoint, written or resumed by this process
  std::optional<double> given_rate_;       // of step_at()
  std::optional<int64_t> measured_epoch_;  // of measure_phase_of()
  int64_t evaluated_step_ = -1;            // at which result_.validation was measured
  double loss_ = std::numeric_limits<double>::quiet_NaN();  // reported last
  std::chrono::steady_clock::time_point started_;
  TrainResult result_;
};

struct DeviceState {
  at::Device device;
  double memory_bytes = 0;   // of the device in all
  bool works = true;         // device::works()
  MemoryAdvice advice = {};  // TrainContext::memory_advice
};

struct DeviceFailure {
  DeviceError error;
  bool lost = false;  // the GPU has failed, and does not recover in this process
};

// What an error of LibTorch means for the device, if it is about that. The GPU has failed (`where`:
// in which step and phase, for the message). Or its memory is full (on the CPU, that of the host):
// names the micro-batch, the peak, and the advice, or without one the flags that train the same
// with half of the memory. Asks a failed GPU nothing.
std::optional<DeviceFailure> device_failure(const c10::Error&, const BatchArithmetic&,
                                            const DeviceState&, const std::string& where);

}  // namespace dtrain::train
