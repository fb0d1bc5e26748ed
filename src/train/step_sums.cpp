#include "train/step_sums.h"

#include <cstddef>

namespace dtrain::train {

using measure::Phase;
using measure::StepTimes;

void StepSums::add(Phase phase, double seconds) {
  if (step_) step_->wall += seconds;
  if (phase == Phase::kCount) return;
  totals_[static_cast<size_t>(phase)] += seconds;
  if (step_) step_->of(phase) += seconds;
}

void StepSums::add_launch(Phase phase, double seconds) {
  if (step_ && (phase == Phase::kForward || phase == Phase::kBackward)) step_->launch += seconds;
}

void StepSums::end_step() {
  constexpr size_t kMost = 4096;
  if (step_) {
    if (!notes_.empty()) {
      step_->buckets = notes_.front().backward.seconds();
      step_->padded = notes_.front().padded;
      notes_.erase(notes_.begin());
    }
    ended_.push_back(*step_);
    ++ended_count_;
  }
  if (ended_.size() > kMost) ended_.erase(ended_.begin(), ended_.begin() + kMost / 2);
  step_ = StepTimes{};
}

std::vector<StepTimes> StepSums::take() {
  std::vector<StepTimes> taken;
  taken.reserve(ended_.capacity());  // room for the next steps: no step allocates
  taken.swap(ended_);
  return taken;
}

void StepSums::forget() {
  step_.reset();
  ended_.clear();
  notes_.clear();
}

}  // namespace dtrain::train
