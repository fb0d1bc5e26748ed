#pragma once

// Finds the rank that stands still. Each rank beats with the age of its *training thread's* progress; when no rank's
// progress is younger than `timeout`, the job is ended with a message that names rank and phase (see stall.h). mpirun
// notices a dead rank by itself, but never a stopped one.
//
// Every rank beats to every other and judges for itself, so any rank may be the stopped one; the lowest that lives
// speaks first. Beats go over a channel of their own (not through the training communicator), so that a rank stuck
// inside a collective still beats. Ages count the time that this process really ran: a job that was suspended and
// continues, or a machine so loaded that no thread gets a turn, raises no alarm. Thread-safety: progress() is called by
// the training thread, costs an atomic store. Ownership: owns its thread.

#include <functional>
#include <memory>
#include <string>

#include "dist/world.h"

namespace dtrain::dist {

class Watchdog {
 public:
  // `on_stall(message)` runs on the watchdog's thread; it must end the process (print, then MpiSession::abort): the
  // training thread cannot be thrown into. timeout_seconds > 0. Collective.
  Watchdog(const World&, double timeout_seconds, std::function<void(const std::string&)> on_stall);
  ~Watchdog();  // never blocks; call close() first on the good path
  Watchdog(const Watchdog&) = delete;

  // `phase` must be a string literal ("data", "forward", ...). Collectives pass "all_reduce": a rank that waits there
  // is a victim, not the culprit. Call it more often than every dist.timeout, in long phases too.
  void progress(const char* phase, int64_t step) noexcept;
  void alive() noexcept;  // progress within the present phase: a slow step of it is done, such as a piece of a file
  void close();           // collective: all ranks stop beating; watches over the others until they come

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::dist
