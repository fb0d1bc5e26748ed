#pragma once

// Splits the time of a step into phases without stopping the device. On the CPU it is a stopwatch. On a GPU each change
// of phase records an event on the current stream, and drain(), called once per step, reads the times of the events
// that the device has already passed. So the time of a phase is the device's time: a host that runs ahead and waits for
// a batch while the device is busy loses nothing; only what leaves the device idle counts as data wait.
//
// It also keeps the times of each step by itself, with the time that no phase covers: take_steps().
//
// Thread-safety: none; the training thread owns it.

#include <torch/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "monitoring/step_times.h"
#include "trace/recorder.h"

namespace dtrain::train {

class PhaseClock {
 public:
  using Seconds = monitoring::PhaseSeconds;

  explicit PhaseClock(at::Device device) : device_(device) {}

  void enter(monitoring::Phase);              // ends the previous phase
  void stop();                                // no phase runs until the next enter()
  void begin_step() { step_begins_ = true; }  // with the next enter(), which ends the previous step

  void drain();                                      // adds the times of events that the device has passed; never waits
  void synchronize();                                // waits for the device, then drains: for logging steps
  const Seconds& totals() const { return totals_; }  // by phase, since construction, as far as drained
  // The steps that have ended since the last call, in order, as far as drained; without the older of very many.
  std::vector<monitoring::StepTimes> take_steps();

  // On a GPU each phase of the device becomes an event of the track, from the first synchronize() on that finds it on.
  void record(trace::Track* track) { track_ = track; }

 private:
  struct Mark {
    c10::Event event;
    monitoring::Phase phase;  // begins at the event; kCount: none
    bool begins_step;
  };
  void add(monitoring::Phase, double seconds);  // time that has passed in the phase; kCount: in none
  void end_step();
  void begin_trace();                              // the device does nothing now
  void add_to_trace(const Mark&, double seconds);  // the phase that began there took so long

  at::Device device_;
  monitoring::Phase current_ = monitoring::Phase::kCount;
  std::chrono::steady_clock::time_point since_;  // when the current phase began, on the CPU
  std::deque<Mark> marks_;                       // not drained yet, in order
  Seconds totals_{};
  bool step_begins_ = false;
  std::optional<monitoring::StepTimes> step_;  // the one that runs, as far as drained; none before the first
  std::vector<monitoring::StepTimes> ended_;   // not taken yet
  trace::Track* track_ = nullptr;
  std::optional<c10::Event> trace_began_;  // passed by the device when the host's clock was at trace_origin_
  trace::Time trace_origin_ = 0;
};

}  // namespace dtrain::train
