#pragma once

// The clock of a GPU: an event on its stream at each change of phase, read after the device has
// passed it, so that the host never waits. Events are used again, because making one costs as much
// as recording it. The host's time between the marks of forward and backward is that in which it
// launched them.
//
// `Event` is c10::Event; tests have one of their own. It needs `bool query() const` (whether the
// device has passed it) and `double elapsedTime(const Event& later) const` (milliseconds).
// Thread-safety: none.

#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "train/step_sums.h"

namespace dtrain::train {

template <typename Event>
class PhaseMarks {
 public:
  using HostTime = std::chrono::steady_clock::time_point;

  std::optional<Event> spare() {  // an event to record; none: make one
    if (spare_.empty()) return std::nullopt;
    std::optional<Event> event(std::move(spare_.back()));
    spare_.pop_back();
    return event;
  }

  // `event` is recorded, now on the host; `phase` begins at it (kCount: none), and perhaps a step.
  void add(Event event, measure::Phase phase, bool begins_step, HostTime now) {
    marks_.push_back({std::move(event), phase, begins_step, now});
  }

  // Adds the times between the events that the device has passed, and gives each to `passed`: the
  // event that it began at, its phase, and its seconds. Never waits.
  template <typename Passed>
  void drain(StepSums& sums, const Passed& passed) {
    if (!begun_ && !marks_.empty() &&
        marks_.front().event.query()) {  // nothing is before the first one
      begun_ = true;
      if (marks_.front().begins_step) sums.end_step();
    }
    while (marks_.size() >= 2 && marks_[1].event.query()) {
      const double seconds = 1e-3 * marks_[0].event.elapsedTime(marks_[1].event);
      sums.add(marks_[0].phase, seconds);
      passed(marks_[0].event, marks_[0].phase, seconds);
      sums.add_launch(marks_[0].phase,
                      std::chrono::duration<double>(marks_[1].at - marks_[0].at).count());
      if (marks_[1].begins_step) sums.end_step();
      spare_.push_back(std::move(marks_.front().event));
      marks_.pop_front();
    }
  }

  const Event* newest() const { return marks_.empty() ? nullptr : &marks_.back().event; }

 private:
  struct Mark {
    Event event;
    measure::Phase phase;
    bool begins_step;
    HostTime at;
  };

  std::deque<Mark>
      marks_;  // not drained yet, in order; the front one is the beginning of what is not
  std::vector<Event> spare_;
  bool begun_ = false;
};

}  // namespace dtrain::train
