#pragma once

// What a run says of itself while it trains: the step lines, the measurements of all ranks, the
// verdict, and the checks of what it reports. Everything goes to the sinks of the run.
//
// Every rank has a RunObserver and calls the same methods in the same order. Thread-safety: none;
// the training thread uses it. Ownership: borrows the StepRunner and what its context refers to.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/evidence.h"
#include "dist/communicator.h"
#include "measure/resource_meter.h"
#include "measure/run_measurements.h"
#include "monitoring/sink.h"
#include "train/report_window.h"
#include "train/step_runner.h"

namespace dtrain::train {

class RunObserver {
 public:
  explicit RunObserver(StepRunner&);

  // Before the first step: names the hosts, measures the network and, where that is asked for, the
  // headroom. Collective.
  void begin();
  void begin_training();                       // after begin()
  void resume(int64_t skipped, int64_t step);  // counts from what a checkpoint has
  void forget_headroom() { headroom_ = {}; }   // it was measured in another phase of the task

  // Whether no verdict would come for a long time unless the next step is a logging step.
  bool wants_to_log_next() const;
  // A step to the sinks. A logging step gathers what all ranks measured, then, on rank 0, judges
  // the run once a minute and if `verdict_asked`. NumericsError: the loss or the gradient is not
  // finite, on all ranks alike. DataError: no sample is left. OutputError: the run folder is gone.
  // Collective at logging steps and at the end of the warm-up.
  void report(monitoring::StepStats&, bool verdict_asked);
  void evaluated(const monitoring::EvalStats&);
  // `best`: the save followed from an evaluation.
  void saved(double seconds, bool best);
  // The means of the next step line begin here: no line counts an evaluation as training time.
  void begin_window();
  void set_state(monitoring::LiveState);  // passes the state to all sinks
  // NumericsError that names samples, if a loss was not finite; collective.
  void check_losses() const;
  // A line on rank 0 where the epoch of data.verify first_epoch was not compared as a whole.
  void say_what_was_compared() const;

  // Gathers what was measured since the last report. Returns the evidence for the verdict, on
  // rank 0. Collective.
  diagnose::RunEvidence conclude();

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  // What followed some steps alone, of the whole process.
  struct Rare {
    diagnose::RareEvents evaluations, saves, saves_of_best;
  };
  // Carried before training, by the probes.
  struct Carried {
    dist::Traffic gradients{}, statistics{};
  };

  void probe_headroom();
  void complete(monitoring::StepStats&);  // what logging steps alone know; collective
  measure::Values memory() const;         // memory of the device, and what its allocator did
  measure::RankSample used_resources();   // since the last call
  // The steps since the last call and, with `more`, what was measured meanwhile. Collective.
  void gather(const measure::Values& more = {}, bool of_steps_alone = true);
  diagnose::RunEvidence evidence();  // what was measured so far; rank 0
  void judge(bool asked);
  std::vector<monitoring::CollectiveStats> collectives() const;
  void check_samples_are_left(int64_t bad_samples) const;
  void check_finite(const monitoring::StepStats&);
  void check_run_folder() const;

  StepRunner& steps_;
  const TrainContext& context_;
  std::vector<std::string> nodes_;  // host names by rank
  ReportWindow window_;
  measure::RunMeasurements measurements_;
  measure::ResourceMeter meter_;
  measure::Values reported_ = {};  // StepStats::values of the newest logging step
  size_t steps_of_resources_ = 0;  // that had ended when used_resources() was called last
  Rare rare_;
  Carried carried_;
  MeasuredSteps headroom_;       // measured in this phase of the task; no steps: not measured
  SteadyTime next_verdict_{};    // when rank 0 judges the run again
  int64_t logged_own_step_ = 0;  // the newest logging step, of StepRunner::own_steps()
  SkippedSteps skipped_;
};

}  // namespace dtrain::train
