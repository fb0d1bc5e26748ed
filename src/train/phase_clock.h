#pragma once

// Splits the time of a step into phases without stopping the device. On the CPU it is a stopwatch. On a GPU each change
// of phase records an event on the current stream, and drain(), called once per step, reads the times of the events
// that the device has already passed. So the time of a phase is the device's time: a host that runs ahead and waits for
// a batch while the device is busy loses nothing; only what leaves the device idle counts as data wait.
//
// Thread-safety: none; the training thread owns it.

#include <torch/types.h>

#include <array>
#include <chrono>
#include <deque>

#include "monitoring/step_stats.h"

namespace dtrain::train {

class PhaseClock {
 public:
  using Seconds = std::array<double, monitoring::kPhases>;

  explicit PhaseClock(at::Device device) : device_(device) {}

  void enter(monitoring::Phase);  // ends the previous phase
  void stop();                    // no phase runs until the next enter()

  void drain();                                      // adds the times of events that the device has passed; never waits
  void synchronize();                                // waits for the device, then drains: for logging steps
  const Seconds& totals() const { return totals_; }  // by phase, since construction, as far as drained

 private:
  struct Mark {
    c10::Event event;
    monitoring::Phase phase;  // begins at the event; kCount: none
  };

  at::Device device_;
  monitoring::Phase current_ = monitoring::Phase::kCount;
  std::chrono::steady_clock::time_point since_;  // when the current phase began, on the CPU
  std::deque<Mark> marks_;                       // not drained yet, in order
  Seconds totals_{};
};

}  // namespace dtrain::train
