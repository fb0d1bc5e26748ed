#pragma once

// Splits a step's time into phases without stopping the device. On the CPU it is a stop-watch; on a GPU each change of
// phase records an event on the current stream, and the times are read when the device has long passed them (drain(),
// called once per step, never waits). So a phase's time is the device's: a host that runs ahead and waits for a batch
// while the device is busy loses nothing, and only what leaves the device idle counts as data wait.
// Thread-safety: used by the training thread.

#include <torch/torch.h>

#include <array>
#include <chrono>
#include <deque>

#include "monitoring/step_stats.h"

namespace dtrain::train {

class PhaseClock {
 public:
  using Seconds = std::array<double, monitoring::kPhases>;

  explicit PhaseClock(at::Device device) : device_(device) {}
  monitoring::Phase enter(monitoring::Phase);        // the phase before ends here, and is returned
  void stop();                                       // no phase runs until the next enter()
  void drain();                                      // takes in the times of events that the device has passed
  void synchronize();                                // waits for the device, then drains: on logging steps
  const Seconds& totals() const { return totals_; }  // since construction

 private:
  struct Mark {
    c10::Event event;
    monitoring::Phase phase;  // that begins at the event; kCount: none
  };
  void mark(monitoring::Phase next);

  at::Device device_;
  monitoring::Phase current_ = monitoring::Phase::kCount;
  std::chrono::steady_clock::time_point since_;
  std::deque<Mark> marks_;
  Seconds totals_{};
};

}  // namespace dtrain::train
