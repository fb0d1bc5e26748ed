#pragma once

// The phases of the training thread as events of a trace, without gaps: what is between two phases
// of a step is "other". Where nothing is recorded it costs one test of a pointer. Thread-safety:
// none; the training thread owns it.

#include <cstdint>
#include <optional>

#include "trace/recorder.h"

namespace dtrain::train {

class PhaseTrace {
 public:
  explicit PhaseTrace(trace::Recorder* recorder)
      : track_(recorder ? recorder->track(trace::kTrainingThread, trace::kTrainingPlace)
                        : nullptr) {}

  void begin_step(int64_t number) {  // with the next enter()
    if (track_) next_step_ = number;
  }
  void enter(const char* phase) {  // a literal
    if (track_) change(phase);
  }
  void leave() {
    if (track_) change(kOther);
  }

 private:
  static constexpr const char* kOther = "other";

  void change(const char* phase) {
    if (!track_->on()) {
      since_.reset();
      return;
    }
    const trace::Time now = trace::now();
    if (since_)
      track_->add({.name = current_, .begin = *since_, .end = now, .kind = trace::Kind::kPhase});
    if (next_step_ > 0 && phase != kOther) {
      track_->add(
          {.name = "step", .begin = now, .end = now, .kind = trace::Kind::kStep, .a = next_step_});
      next_step_ = 0;
    }
    current_ = phase;
    since_ = now;
  }

  trace::Track* track_;
  const char* current_ = kOther;
  std::optional<trace::Time> since_;  // when the current phase began; none: it is not recorded
  int64_t next_step_ = 0;             // begins with the next enter(); 0: none
};

}  // namespace dtrain::train
