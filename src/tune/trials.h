#pragma once

// The instrument of `dtrain tune`: measures the run with other settings, within the time that is
// left, and shows how far it is. What it finds is returned. Every method is collective unless it
// says otherwise, and gives the same on all ranks. Thread-safety: the training thread. Ownership:
// borrows what the constructor gets; owns the run of the trials.

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "job/step_probe.h"
#include "job/training_job.h"
#include "tune/choose.h"
#include "tune/tune_result.h"
#include "tune/tuned_run.h"

namespace dtrain::tune {

// What a stage had no time for; "": nothing. Pure.
std::string left_out_of(Stage, size_t candidates, const Halving&);

// What a search has measured and which of it is best.
struct Chosen {
  std::optional<TunedSettings> settings = {};  // none: nothing was measured
  double rate = 0;
  std::vector<TrialRow> rows = {};
  std::string left_out = {};
};

class Trials {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `began`: when the time of the options began.
  Trials(job::ProcessContext&, const TunedRun&, Time began, const std::atomic<bool>& stop,
         const ReportProgress&);

  const TunedRun& run() const { return tuned_; }
  job::ProcessContext& process() const { return process_; }

  // ---- time: rank 0's clock is that of all ----
  double minutes_in_seconds() const { return 60 * tuned_.options.minutes; }
  double left();  // seconds for the tuning; the range test has a part of the minutes for itself
  double left_in_all();
  bool stopped();  // whether a signal has asked any rank to stop; once true, it stays
  bool was_stopped() const { return stopped_; }  // last answer of stopped(); not collective
  const std::atomic<bool>& stop_of_this_rank() const { return stop_; }

  // ---- progress: of the minutes, on rank 0; not collective ----
  void begin_trial(Stage);
  void show(Stage);   // a stage that works without trials
  void show_again();  // the same with the time that has passed; on any rank, in a long trial
  void show_end();    // end of all stages

  // ---- the run ---- Kept for settings with the same network
  const job::ConnectedRun& run_for(const TunedSettings&);
  void leave_run();  // its memory is given back

  // ---- rates ---- In samples/s, of steps with one micro-step, for as many as the run would make.
  // NaN: the settings cannot be used. nullopt: no time is left though a rate is known, or a signal
  // asked to stop.
  std::optional<double> rate_of(Stage, const TunedSettings&, double seconds);
  // The same of `whole` steps, or of one micro-step. nullopt: the settings cannot be used.
  std::optional<double> final_rate(const TunedSettings&, bool whole);
  // The shortest time in which a measurement says something. Not collective.
  double first_look_seconds() const;
  // Successive halving over the candidates of a search within `seconds`. One that costs less is
  // taken where its rate is within `tolerance` of the best.
  Chosen choose(Stage, KeyGroup, const std::vector<TunedSettings>& candidates, double tolerance,
                double seconds);

 private:
  job::StepProbe probe(const TunedSettings&, int64_t accumulate, int64_t warm_steps,
                       double seconds);
  // Samples/s of the run's steps
  double rate_with(const job::StepProbe&, const TunedSettings&) const;
  void report(const char* stage, int64_t passed, int64_t total);
  int64_t milliseconds() const;  // since the tuning began
  double expected_overhead(const std::vector<TunedSettings>&) const;

  job::ProcessContext& process_;
  const TunedRun& tuned_;
  const Time began_;
  const std::atomic<bool>& stop_;
  const ReportProgress& report_;
  std::optional<job::ConnectedRun> run_;
  TunedSettings run_settings_;
  bool stopped_ = false;
  bool has_rate_ = false;  // a rate was measured
  Stage shown_ = Stage::kMemory;
  int64_t trials_begun_ = 0;
  bool in_trial_ = false;
  // Seconds of the last trial beside its measurement, and its micro-batch; 0: there was none.
  double overhead_ = 1;
  int64_t overhead_batch_ = 0;
};

}  // namespace dtrain::tune
