#pragma once

// When an interval of the configuration (checkpoint.every, train.eval_every, run.log_every) is due.
// By steps and epochs every rank knows it alone. By time only the clock of rank 0 counts: its
// trigger makes a request, which StepAgreement turns into a decision of all ranks.
//
// Thread-safety: none; the training thread owns it. Ownership: borrows the Clock.

#include "config/interval.h"
#include "core/clock.h"

namespace dtrain::train {

class IntervalTrigger {
 public:
  // `keeps_time`: whether this rank makes requests. The time begins now.
  IntervalTrigger(const config::Interval& interval, int64_t steps_per_epoch, const Clock& clock,
                  bool keeps_time)
      : interval_(interval),
        steps_per_epoch_(steps_per_epoch),
        clock_(clock),
        keeps_time_(keeps_time) {
    restart();
  }

  // Whether it is due by steps or epochs, at the end of optimizer step `step` (1-based).
  bool due(int64_t step) const { return interval_.due(step, steps_per_epoch_); }

  // Whether it is due by time: true once when the time is over. The request of one step boundary is
  // granted at the next one, so it is not repeated before restart().
  bool request() {
    const double seconds = interval_.period();
    if (!keeps_time_ || requested_ || seconds <= 0) return false;
    requested_ = seconds_between(since_, clock_.now()) >= seconds;
    return requested_;
  }

  // starts the time again: at the start of the loop, and when the action was done for any reason
  void restart() {
    since_ = clock_.now();
    requested_ = false;
  }

 private:
  config::Interval interval_;
  int64_t steps_per_epoch_;
  const Clock& clock_;
  bool keeps_time_, requested_ = false;
  Clock::Steady::time_point since_;
};

}  // namespace dtrain::train
