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
    const double seconds = marks_[0].event.elapsedTime(marks_[1].event) * 1e-3;
    add(marks_[0].phase, seconds);
    if (trace_began_ && track_->on()) add_to_trace(marks_[0], seconds);
    if (marks_[1].begins_step) end_step();
    marks_.pop_front();
  }
}

void PhaseClock::synchronize() {
  if (!marks_.empty()) marks_.back().event.synchronize();
  drain();
  if (track_ != nullptr && track_->on() && !trace_began_) begin_trace();
}

void PhaseClock::begin_trace() {
  trace_began_.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  trace_began_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  trace_began_->synchronize();
  trace_origin_ = trace::now();
}

void PhaseClock::add_to_trace(const Mark& mark, double seconds) {
  if (mark.phase == Phase::kCount) return;
  const auto begin = trace_origin_ + static_cast<trace::Time>(trace_began_->elapsedTime(mark.event) * 1e6);
  track_->add({.name = monitoring::kPhaseNames[static_cast<size_t>(mark.phase)],
               .begin = begin,
               .end = begin + static_cast<trace::Time>(seconds * 1e9),
               .kind = trace::Kind::kPhase});
}

std::vector<StepTimes> PhaseClock::take_steps() { return std::exchange(ended_, {}); }

}  // namespace dtrain::train
