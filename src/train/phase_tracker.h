#pragma once

// Where the training thread is. Each phase of a step is announced once, by enter(), and four
// listeners receive it: the clock begins a new interval (phase_clock.h), the watchdog sees that
// this rank moves (dist/watchdog.h), a profiler sees a named range (device/profiler_range.h), and a
// trace an event (phase_trace.h). All of them use the names of measure::kPhaseNames, with one
// exception: to the watchdog a rank that waits for other ranks is in "all_reduce", whatever
// its phase.
//
// Thread-safety: the training thread calls everything. While it waits in backward(), autograd's
// thread may call wait_for_others() and proceed(). Nothing here waits for the device.

#include <cstdint>
#include <functional>

#include "device/profiler_range.h"
#include "train/phase_clock.h"
#include "train/phase_trace.h"

namespace dtrain::train {

class PhaseTracker {
 public:
  // `phase` is a string literal
  using Watchdog = std::function<void(const char* phase, int64_t step)>;

  // Borrows recorder and clock
  explicit PhaseTracker(at::Device, Watchdog watchdog = {}, trace::Recorder* recorder = nullptr,
                        const Clock& clock = real_clock());

  void set_step(int64_t step) { step_ = step; }  // optimizer steps done, for the next announcements

  void begin_step();           // with the next enter()
  void enter(measure::Phase);  // ends the previous phase
  void leave();                // no phase runs until the next enter()
  void end_steps();            // for a trace: the last step ends here

  // This rank now waits for other ranks, until the next enter() or proceed(). Its time still counts
  // for the phase.
  void wait_for_others();
  // This rank moves within its phase: a collective is over, or a batch of an evaluation is done.
  void proceed();

  measure::Phase current() const { return current_; }  // kCount: none
  PhaseClock& clock() { return clock_; }

 private:
  void tell_watchdog(const char* phase) const;

  PhaseClock clock_;
  Watchdog watchdog_;
  device::ProfilerRange range_;
  PhaseTrace trace_;
  measure::Phase current_ = measure::Phase::kCount;
  int64_t step_ = 0;
};

}  // namespace dtrain::train
