#pragma once

// What happened since the last step line: the means and rates that the line shows. A window begins
// at the start of the loop, after each step line, and after each evaluation, so that no line counts
// an evaluation as training time. And how many steps in a row were skipped, which the host learns
// at step lines only. The caller reads the clocks. Pure values.

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

// Counts the optimizer steps in a row that were skipped because the gradient was not finite.
class SkippedSteps {
 public:
  // A resumed run continues after `step` steps, of which `total` were skipped: those are not
  // counted here.
  explicit SkippedSteps(int64_t total = 0, int64_t step = 0) : total_(total), step_(step) {}

  // Takes the number of skipped steps among the first `step`. Returns how many since the last call.
  int64_t update(int64_t total, int64_t step) {
    const int64_t skipped = total - total_;
    in_a_row_ = skipped == step - step_ ? in_a_row_ + skipped : 0;
    total_ = total;
    step_ = step;
    return skipped;
  }

  // Up to the last update(). Exact only if every step was reported: one step that was not skipped
  // ends the row, wherever it lies between two calls.
  int64_t in_a_row() const { return in_a_row_; }

 private:
  int64_t total_, step_;  // at the last update
  int64_t in_a_row_ = 0;
};

}  // namespace dtrain::train
