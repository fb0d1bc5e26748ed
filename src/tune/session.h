#pragma once

// What the stages of `dtrain tune` share: the run with the settings that a stage wants to try, the
// time that is left, and the rows of what was tried. Every method is collective, and gives the same
// on all ranks. Thread-safety: the training thread. Ownership: borrows all that the constructor
// gets; owns the run of the trials.

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "job/step_probe.h"
#include "job/training_job.h"
#include "tune/choose.h"
#include "tune/memory_budget.h"
#include "tune/tuner.h"

namespace dtrain::tune {

// What a stage had no time for; "": nothing. Pure.
std::string left_out_of(Stage, size_t candidates, const Halving&);

class Session {
 public:
  // Options other than memory_budget are rank 0's: ranks with others would wait for each
  // other. Collective.
  Session(job::ProcessContext&, const config::Loaded&, const TuneOptions&,
          const std::atomic<bool>& stop, const ReportProgress&);
  ~Session();

  // ---- time and agreement: rank 0's clock is that of all ----
  double minutes_in_seconds() const { return 60 * options_.minutes; }
  double left();  // seconds for the tuning; the range test has a part of the minutes for itself
  double left_in_all();
  bool stopped();  // a signal asked any rank to stop; the result is marked

  // ---- progress: of the minutes, on rank 0 ----
  void begin_trial(Stage);
  void show(Stage);   // a stage that works without trials
  void show_again();  // the same with the time that has passed; on any rank, in a long trial
  void show_end();    // of all stages

  // ---- the run ----
  // Kept for settings with the same network.
  job::ConnectedRun& run_for(const Settings&);
  void leave_run();  // its memory is given back

  // ---- rates ----
  // In samples/s, of steps with one micro-step, for as many as the run would make. NaN: the
  // settings cannot be used. nullopt: no time is left though a rate is known, or a signal asked
  // to stop.
  std::optional<double> rate_of(Stage, const Settings&, double seconds);
  // The same of `whole` steps, or of one micro-step. nullopt: the settings cannot be used.
  std::optional<double> final_rate(const Settings&, bool whole);
  // The shortest time in which a measurement says something.
  double first_look_seconds() const;
  // Successive halving over the candidates within `seconds`; adds their rows. One that costs less
  // is taken where its rate is within `tolerance` of the best. nullopt: nothing was measured.
  std::optional<Settings> choose(Stage, const std::vector<Settings>& candidates,
                                 const std::vector<double>& costs, double tolerance,
                                 double seconds);

  TuneResult result;
  Freedom freedom;
  Budget budget;
  LargestBatch largest_as_given;
  int64_t most = 1;          // the largest micro-batch that the run can use
  int capability = 0;        // of the device; the least of all ranks
  double batch_bytes = 0;    // of a batch that is read ahead, at the largest size that fits
  double process_bytes = 0;  // at that size
  double rate = 0;           // of the last choice
  const TuneOptions& options() const { return options_; }
  const std::atomic<bool>& stop() const { return stop_; }
  job::ProcessContext& process() const { return process_; }
  config::Loaded& loaded() { return loaded_; }

 private:
  job::ProcessContext& process_;
  config::Loaded loaded_;
  const TuneOptions options_;
  const std::atomic<bool>& stop_;
  const ReportProgress& report_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<job::ConnectedRun> run_;
  Settings run_settings_;
  job::StepProbe probe(const Settings&, int64_t accumulate, int64_t warm_steps, double seconds);
  double rate_with(const job::StepProbe&, const Settings&) const;  // samples/s of the run's steps
  void report(const char* stage, int64_t passed, int64_t total);
  int64_t milliseconds() const;  // since the tuning began
  double expected_overhead(const std::vector<Settings>&) const;

  Stage shown_ = Stage::kMemory;
  int64_t trials_begun_ = 0;
  bool in_trial_ = false;
  // Seconds of the last trial beside its measurement, and its micro-batch; 0: there was none.
  double overhead_ = 1;
  int64_t overhead_batch_ = 0;
};

}  // namespace dtrain::tune
