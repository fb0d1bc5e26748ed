#pragma once

// When an interval of the configuration is due: by steps and epochs on every rank alike; by minutes as a wish of rank 0
// alone, whose clock counts, that StepAgreement makes a decision of all.

#include <chrono>

#include "config/interval.h"

namespace dtrain::train {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  Pace(const config::Interval& interval, int64_t steps_per_epoch, bool has_the_clock)
      : interval_(interval), steps_per_epoch_(steps_per_epoch), has_the_clock_(has_the_clock) {}

  bool due(int64_t step) const { return interval_.due(step, steps_per_epoch_); }  // at the end of this step, 1-based
  // True once when the minutes since done() are over; what is wished at one step boundary is granted at the next.
  bool wish(Clock::time_point now) {
    if (!has_the_clock_ || wished_ || interval_.minutes <= 0) return false;
    wished_ = std::chrono::duration<double>(now - last_).count() >= interval_.minutes * 60;
    return wished_;
  }
  void done(Clock::time_point now) {  // it has been done, for whatever reason; and at the start of the run
    last_ = now;
    wished_ = false;
  }

 private:
  config::Interval interval_;
  int64_t steps_per_epoch_;
  bool has_the_clock_, wished_ = false;
  Clock::time_point last_ = Clock::now();
};

}  // namespace dtrain::train
