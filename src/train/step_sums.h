#pragma once

// The times of phases and of steps, added up from the intervals that a clock measures. Pure.
// Thread-safety: none.

#include <optional>
#include <vector>

#include "dist/backward_times.h"
#include "measure/step_times.h"

namespace dtrain::train {

class StepSums {
 public:
  // Time that has passed in the phase; kCount: in none
  void add(measure::Phase, double seconds);
  // Time of the host, while it gave the device the phase's work
  void add_launch(measure::Phase, double seconds);
  void end_step();  // and begins the next one
  // Belongs to a step that runs. It is read when the step ends: a GPU has then passed it.
  void note(const dist::BackwardTimes& backward, const measure::PaddedRows& padded = {}) {
    notes_.push_back({backward, padded});
  }

  // Totals by phase since construction
  const measure::PhaseSeconds& totals() const { return totals_; }
  // The steps that have ended and were not taken; the newest of very many
  std::vector<measure::StepTimes> take();
  // Steps that have ended so far, those that were left out too
  size_t ended() const { return ended_count_; }
  void forget();  // the step that runs, and those that were not taken

 private:
  measure::PhaseSeconds totals_{};
  std::optional<measure::StepTimes> step_;  // the one that runs; none before the first
  std::vector<measure::StepTimes> ended_;
  size_t ended_count_ = 0;
  struct Note {
    dist::BackwardTimes backward;
    measure::PaddedRows padded;
  };
  std::vector<Note> notes_;  // at most one for each step that runs, in order
};

}  // namespace dtrain::train
