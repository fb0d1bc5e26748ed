#include "train/phase_clock.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <utility>

namespace dtrain::train {

using measure::Phase;

void PhaseClock::stop() { enter(Phase::kCount); }

void PhaseClock::enter(Phase next) {
  const bool begins_step = std::exchange(step_begins_, false);
  const Phase ended = std::exchange(current_, next);
  if (device_.is_cpu()) {
    const auto now = clock_.now();
    sums_.add(ended, seconds_between(since_, now));
    since_ = now;
    if (begins_step) sums_.end_step();
    return;
  }
  std::optional<c10::Event> event = marks_.spare();
  if (!event) event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  marks_.add(std::move(*event), next, begins_step, clock_.now());
}

void PhaseClock::drain() {
  marks_.drain(sums_, [this](const Event& began, Phase phase, double seconds) {
    if (trace_began_ && track_->on()) add_to_trace(began, phase, seconds);
  });
}

void PhaseClock::synchronize() {
  if (const c10::Event* newest = marks_.newest()) newest->synchronize();
  drain();
  if (track_ != nullptr && track_->on() && !trace_began_) begin_trace();
}

void PhaseClock::begin_trace() {
  trace_began_.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  trace_began_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  trace_began_->synchronize();
  trace_origin_ = trace::now();
}

void PhaseClock::add_to_trace(const Event& began, Phase phase, double seconds) {
  if (phase == Phase::kCount) return;
  const auto begin =
      trace_origin_ + static_cast<trace::Time>(trace_began_->elapsedTime(began) * 1e6);
  track_->add({.name = measure::kPhaseNames[static_cast<size_t>(phase)],
               .begin = begin,
               .end = begin + static_cast<trace::Time>(seconds * 1e9),
               .kind = trace::Kind::kPhase});
}

void PhaseClock::forget_steps() {
  synchronize();
  sums_.forget();
}

}  // namespace dtrain::train
