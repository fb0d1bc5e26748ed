#pragma once

// Splits the time of a step into phases without stopping the device. On the CPU it is a stopwatch.
// On a GPU each change of phase records an event on the current stream, and drain(), called once
// per step, reads the times of the events that the device has already passed (phase_marks.h). So
// the time of a phase is the device's time: a host that runs ahead and waits for a batch while the
// device is busy loses nothing; what leaves the device idle counts as data wait.
//
// It also keeps the times of each step by itself, with the time that no phase covers: take_steps().
//
// Thread-safety: none; the training thread owns it.

#include <c10/core/Event.h>
#include <torch/types.h>

#include <optional>
#include <vector>

#include "core/clock.h"
#include "measure/step_times.h"
#include "trace/recorder.h"
#include "train/phase_marks.h"
#include "train/step_sums.h"

namespace dtrain::train {

class PhaseClock {
 public:
  using Seconds = measure::PhaseSeconds;

  // Borrows the clock
  explicit PhaseClock(at::Device device, const Clock& clock = real_clock())
      : device_(device), clock_(clock) {}

  void enter(measure::Phase);                 // ends the previous phase
  void stop();                                // no phase runs until the next enter()
  void begin_step() { step_begins_ = true; }  // with the next enter(), which ends the previous step
  // Notes what happened in the step; once at most.
  void note(const dist::BackwardTimes& backward, const measure::PaddedRows& padded = {}) {
    sums_.note(backward, padded);
  }

  void drain();        // adds the times of events that the device has passed; never waits
  void synchronize();  // waits for the device, then drains
  // Totals by phase since construction, as far as drained
  const Seconds& totals() const { return sums_.totals(); }
  // The steps that have ended since the last call, in order, as far as drained; without the older
  // of very many.
  std::vector<measure::StepTimes> take_steps() { return sums_.take(); }
  // Steps that have ended since construction, those that were left out too
  size_t ended_steps() const { return sums_.ended(); }
  // The step that runs and those that were not taken are not part of what take_steps() gives.
  // Requires: no phase runs.
  void forget_steps();

  // On a GPU each phase of the device becomes an event of the track, from the first synchronize()
  // on that finds it on.
  void record(trace::Track* track) { track_ = track; }

 private:
  using Event = c10::Event;
  void begin_trace();  // the device does nothing now
  void add_to_trace(const Event& began, measure::Phase, double seconds);

  at::Device device_;
  const Clock& clock_;
  measure::Phase current_ = measure::Phase::kCount;
  Clock::Steady::time_point since_;  // when the current phase began, on the CPU
  PhaseMarks<c10::Event> marks_;     // on a GPU
  StepSums sums_;
  bool step_begins_ = false;
  trace::Track* track_ = nullptr;
  std::optional<Event>
      trace_began_;  // passed by the device when the host's clock was at trace_origin_
  trace::Time trace_origin_ = 0;
};

}  // namespace dtrain::train
