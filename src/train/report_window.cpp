#include "train/report_window.h"

#include <utility>

namespace dtrain::train {

void ReportWindow::begin(int64_t step, Time now, const PhaseClock::Seconds& phases) {
  first_step_ = step;
  began_ = now;
  phases_ = phases;
  samples_ = 0;
  queue_ = 0;
}

void ReportWindow::add(monitoring::StepStats& stats, int64_t bytes_read) {
  stats.loader_bytes = bytes_read - std::exchange(bytes_read_, bytes_read);
  samples_ += stats.samples;
  queue_ += stats.loader_queue;
}

void ReportWindow::summarize(monitoring::StepStats& stats, Time now,
                             const PhaseClock::Seconds& phases) const {
  const double steps = steps_until(stats);
  const double seconds = std::chrono::duration<double>(now - began_).count();
  stats.step_seconds = stats.other_seconds = seconds / steps;
  for (size_t phase = 0; phase < phases.size(); ++phase) {
    stats.phase_seconds[phase] = (phases[phase] - phases_[phase]) / steps;
    stats.other_seconds -= stats.phase_seconds[phase];
  }
  stats.samples_per_second = static_cast<double>(samples_) / seconds;
  stats.eta_seconds = static_cast<double>(stats.total_steps - stats.step) * seconds / steps;
}

}  // namespace dtrain::train
