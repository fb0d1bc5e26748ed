#pragma once

// Ends a job that has stalled, with a message that names the rank and the phase. mpirun notices a
// dead rank by itself, but never a stopped one.
//
// A thread of each rank sends heartbeats to every other rank, with the time since the *training
// thread* last made progress. When no rank has made progress for `timeout`, the job is ended
// (stall_detector.h decides). Every rank judges for itself, so any rank may be the stopped one.
// Heartbeats use an MPI communicator of their own, so that a rank that is stuck in a collective of
// the training still sends them. They also say which hosts a rank does not hear, so that a rank
// that hears both can name two hosts that do not reach each other.
//
// Where a network error has stopped a collective, its communicator may know it long before the
// timeout (Communicator::check(), the asynchronous errors of NCCL): it is asked as soon as this
// rank has made no progress for the period of heartbeats, a tenth of the timeout or 30 seconds.
//
// Thread-safety: progress() and alive() may be called from any thread and cost an atomic store; the
// other methods are called by the training thread.
// Ownership: owns its thread; borrows the clock.

#include <functional>
#include <memory>

#include "core/clock.h"
#include "dist/peer_error.h"
#include "dist/world.h"

namespace dtrain::dist {

class Watchdog {
 public:
  // What an alarm calls, on the watchdog's thread. It must end the process (report(), then
  // MpiSession::abort), because an exception cannot be thrown into the training thread.
  using OnStall = std::function<void(const PeerError&)>;

  // Requires timeout_seconds > 0. Collective.
  Watchdog(const World&, double timeout_seconds, OnStall on_stall,
           const Clock& clock = real_clock());
  // Never blocks. Call close() first unless the job fails.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `check`, called on the watchdog's thread, throws what a communicator has failed with. That is
  // an alarm too.
  void ask(std::function<void()> check);

  // The training thread enters `phase`, a string literal ("data_wait", "forward", ...). Collectives
  // pass "all_reduce": a rank that waits there is not the cause of a stall. Call it more often than
  // every dist.timeout, also in phases that take long.
  void progress(const char* phase, int64_t step) noexcept;
  // Progress within the current phase, for example a piece of a file that was written.
  void alive() noexcept;
  // Waits until all ranks have called it, and watches over the others until then. Throws what ended
  // the watchdog's thread early, if anything did. Collective.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::dist
