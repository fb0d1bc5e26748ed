#include "train/phase_clock.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace dtrain::train {

using monitoring::Phase;

void PhaseClock::stop() { enter(Phase::kCount); }

void PhaseClock::enter(Phase next) {
  const auto now = std::chrono::steady_clock::now();
  if (current_ != Phase::kCount && device_.is_cpu()) {
    totals_[static_cast<size_t>(current_)] += std::chrono::duration<double>(now - since_).count();
  }
  current_ = next;
  since_ = now;
  if (device_.is_cpu()) return;
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  marks_.push_back({std::move(event), next});
}

void PhaseClock::drain() {
  while (marks_.size() >= 2 && marks_[1].event.query()) {
    const Phase phase = marks_[0].phase;
    if (phase != Phase::kCount) {
      totals_[static_cast<size_t>(phase)] += marks_[0].event.elapsedTime(marks_[1].event) * 1e-3;
    }
    marks_.pop_front();
  }
}

void PhaseClock::synchronize() {
  if (!marks_.empty()) marks_.back().event.synchronize();
  drain();
}

}  // namespace dtrain::train
