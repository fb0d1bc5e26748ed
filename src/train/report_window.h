#pragma once

// What happened since the last step line: the means and rates that the line shows. A window begins
// at the start of the loop, after each step line, and after each evaluation, so that no line counts
// an evaluation as training time. The caller reads the clocks. Pure values.

#include <chrono>
#include <cstdint>

#include "monitoring/step_stats.h"
#include "train/phase_clock.h"

namespace dtrain::train {

class ReportWindow {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `step`: optimizer steps done; `phases`: PhaseClock::totals() now.
  void begin(int64_t step, Time now, const PhaseClock::Seconds& phases);

  // Adds a step, and sets the bytes that the loader read for it. `bytes_read`: by the loader since
  // it was made.
  void add(monitoring::StepStats&, int64_t bytes_read);

  // Sets, of the last step added: step_seconds, phase_seconds and other_seconds (means over the
  // window), samples_per_second and eta_seconds.
  void summarize(monitoring::StepStats&, Time now, const PhaseClock::Seconds& phases) const;

  // Batches that were ready after a step of the window, whose last one is `last`: the mean.
  double mean_queue(const monitoring::StepStats& last) const { return queue_ / steps_until(last); }

 private:
  double steps_until(const monitoring::StepStats& last) const {
    return static_cast<double>(last.step - first_step_);
  }

  int64_t first_step_ = 0;
  Time began_{};
  PhaseClock::Seconds phases_{};  // when the window began
  int64_t samples_ = 0;
  double queue_ = 0;        // summed over steps
  int64_t bytes_read_ = 0;  // until the last step
};

}  // namespace dtrain::train
