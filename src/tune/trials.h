#pragma once

// The instrument of `dtrain tune`: measures the run with other settings, within the time that is
// left. What it finds is returned; what stages know of each other is in TuneState alone. Every
// method is collective unless it says otherwise, and gives the same on all ranks. Thread-safety:
// the training thread. Ownership: borrows what the constructors get; Trials owns its run.

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

// The time of the tuning: what is left of it, who has asked to end it, and what is shown of it.
// Rank 0's clock is that of all.
class TuneTime {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `began`: when the time of the options began.
  TuneTime(const job::ProcessContext&, const TuneOptions&, Time began,
           const std::atomic<bool>& stop, const ReportProgress&);

  double minutes_in_seconds() const { return 60 * options_.minutes; }
  double left() const;  // seconds for the tuning; the range test has a part of the minutes
  double left_in_all() const;
  bool stopped();  // whether a signal has asked any rank to stop; once true, it stays
  bool was_stopped() const { return stopped_; }  // last answer of stopped(); not collective
  const std::atomic<bool>& stop_of_this_rank() const { return stop_; }

  // Shows how many of the minutes have passed, on rank 0; not collective.
  void show(Stage, bool begins_trial = false);
  // The same with the time that has passed; on any rank, in a long trial
  void show_again() const { report(name_of(shown_).data(), /*ended=*/false); }
  void show_end() const { report("tune", /*ended=*/true); }

 private:
  void report(const char* stage, bool ended) const;

  const job::ProcessContext& process_;
  const TuneOptions& options_;
  const Time began_;
  const std::atomic<bool>& stop_;
  const ReportProgress& report_;
  bool stopped_ = false;
  Stage shown_ = Stage::kMemory;
  int64_t trials_begun_ = 0;
  bool in_trial_ = false;
};

class Trials {
 public:
  Trials(job::ProcessContext& process, const TunedRun& run, TuneTime& time)
      : process_(process), tuned_(run), time_(time) {}

  const TunedRun& run() const { return tuned_; }
  job::ProcessContext& process() const { return process_; }
  TuneTime& time() const { return time_; }
  double left() const { return time_.left(); }
  bool stopped() const { return time_.stopped(); }

  // The run with these settings. It is kept for others with the same network.
  const job::ConnectedRun& run_for(const TunedSettings&) const;
  void leave_run() const;  // its memory is given back

  // ---- rates ---- In samples/s, of steps with one micro-step, for as many as the run would make.
  // NaN: the settings cannot be used. nullopt: no time is left though a rate is known, or a signal
  // asked to stop. Sets the overhead.
  std::optional<double> rate_of(Stage, const TunedSettings&, double seconds, TrialOverhead&) const;
  // The same of `whole` steps, or of one micro-step. nullopt: the settings cannot be used.
  std::optional<double> final_rate(const TunedSettings&, bool whole) const;

 private:
  job::StepProbe probe(const TunedSettings&, int64_t accumulate, int64_t warm_steps,
                       double seconds) const;
  // Samples/s of the run's steps
  double rate_with(const job::StepProbe&, const TunedSettings&) const;

  job::ProcessContext& process_;
  const TunedRun& tuned_;
  TuneTime& time_;
  mutable std::optional<job::ConnectedRun> run_;  // a cache: no rate depends on it
  mutable TunedSettings run_settings_;
};

// The shortest time in which a measurement says something. Pure.
double first_look_seconds(const TuneOptions&, const TrialOverhead&);

// Successive halving over the candidates of a search within `seconds`. One that costs less is taken
// where its rate is within `tolerance` of the best. Adds what was tried; returns the choice, if
// anything was measured.
std::optional<TunedSettings> choose(const Trials&, TuneState&, Stage, KeyGroup,
                                    const std::vector<TunedSettings>& candidates, double tolerance,
                                    double seconds);

}  // namespace dtrain::tune
