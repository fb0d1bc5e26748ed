#include "train/phase_clock.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace dtrain::train {

using monitoring::Phase;
using monitoring::StepTimes;

void PhaseClock::stop() { enter(Phase::kCount); }

void PhaseClock::enter(Phase next) {
  const bool begins_step = std::exchange(step_begins_, false);
  if (device_.is_cpu()) {
    const auto now = std::chrono::steady_clock::now();
    add(current_, std::chrono::duration<double>(now - since_).count());
    since_ = now;
    if (begins_step) end_step();
  }
  current_ = next;
  if (device_.is_cpu()) return;
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  if (begins_step && marks_.empty()) end_step();  // nothing is before the first mark
  marks_.push_back({std::move(event), next, begins_step});
}

void PhaseClock::add(Phase phase, double seconds) {
  if (step_) step_->wall += seconds;
  if (phase == Phase::kCount) return;
  totals_[static_cast<size_t>(phase)] += seconds;
  if (step_) step_->phases[static_cast<size_t>(phase)] += seconds;
}

void PhaseClock::end_step() {
  constexpr size_t kMost = 4096;
  if (step_) ended_.push_back(*step_);
  if (ended_.size() > kMost) ended_.erase(ended_.begin(), ended_.begin() + kMost / 2);
  step_ = StepTimes{};
}

void PhaseClock::drain() {
  while (marks_.size() >= 2 && marks_[1].event.query()) {
    add(marks_[0].phase, marks_[0].event.elapsedTime(marks_[1].event) * 1e-3);
    if (marks_[1].begins_step) end_step();
    marks_.pop_front();
  }
}

void PhaseClock::synchronize() {
  if (!marks_.empty()) marks_.back().event.synchronize();
  drain();
}

std::vector<StepTimes> PhaseClock::take_steps() { return std::exchange(ended_, {}); }

}  // namespace dtrain::train
