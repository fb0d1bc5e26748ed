#include "train/phase_tracker.h"

#include <utility>

namespace dtrain::train {
namespace {

using measure::Phase;

constexpr const char* kWaitsForOthers = "all_reduce";  // same name in dist/stall_detector.cpp

const char* name_of(Phase phase) { return measure::kPhaseNames[static_cast<size_t>(phase)]; }

}  // namespace

PhaseTracker::PhaseTracker(at::Device device, Watchdog watchdog, trace::Recorder* recorder,
                           const Clock& clock)
    : clock_(device, clock), watchdog_(std::move(watchdog)), trace_(recorder) {
  if (recorder && !device.is_cpu())
    clock_.record(recorder->track(device.str() + " phases", trace::kDevicePlace));
}

void PhaseTracker::begin_step() {
  clock_.begin_step();
  trace_.begin_step(step_ + 1);
}

void PhaseTracker::enter(Phase phase) {
  current_ = phase;
  clock_.enter(phase);
  trace_.enter(name_of(phase));
  range_.begin(name_of(phase));
  tell_watchdog(phase == Phase::kAllReduceWait ? kWaitsForOthers : name_of(phase));
}

void PhaseTracker::leave() {
  current_ = Phase::kCount;
  clock_.stop();
  trace_.leave();
  clock_.drain();
  range_.end();
}

void PhaseTracker::end_steps() { trace_.leave(); }

void PhaseTracker::wait_for_others() { tell_watchdog(kWaitsForOthers); }

void PhaseTracker::proceed() {
  if (current_ != Phase::kCount) tell_watchdog(name_of(current_));
}

void PhaseTracker::tell_watchdog(const char* phase) const {
  if (watchdog_) watchdog_(phase, step_);
}

}  // namespace dtrain::train
