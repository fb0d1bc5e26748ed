#pragma once

// Counts the optimizer steps in a row that were skipped because the gradient was not finite. The
// device counts all skipped steps; the host learns of the total on logging steps only. Pure values.

#include <cstdint>

namespace dtrain::train {

class SkippedSteps {
 public:
  // A resumed run continues after `step` steps, of which `total` were skipped: those are not
  // counted here.
  explicit SkippedSteps(int64_t total = 0, int64_t step = 0) : total_(total), step_(step) {}

  // Of `step` steps `total` were skipped. Returns how many since the last call.
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
