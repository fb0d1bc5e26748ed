#pragma once

// A request to stop a job, which becomes harder with time: the ranks are asked to save, and asked
// again, until --grace is over; then mpirun is asked to end them, and at last killed. A second
// Ctrl-C does not wait for a save. Thread-safety: none.

#include <optional>

#include "core/clock.h"

namespace dtrain::supervisor {

class StopRequest {
 public:
  StopRequest(double grace_seconds, const Clock& clock) : grace_(grace_seconds), clock_(clock) {}

  // A signal of the user or of the system: SIGTERM, SIGINT, SIGHUP or SIGUSR1.
  void ask(int signal);
  bool asked() const { return since_.has_value(); }

  enum class Due {
    kNothing,
    // SIGUSR1 to mpirun, which passes it on. Again each second: it is lost where mpirun has no
    // ranks yet
    kSave,
    kEnd,  // SIGTERM to mpirun, which gives its ranks one second
    kKill,
  };
  // What is due now. kSave and kEnd are given once each time they are due; the caller carries
  // them out.
  Due due();
  // Why kEnd was due: by a second Ctrl-C, not because the time was over.
  bool in_hurry() const { return in_hurry_; }

  static constexpr double kBetweenSignals = 1, kLastGrace = 5;  // seconds

 private:
  double grace_;
  const Clock& clock_;
  bool in_hurry_ = false;
  int interrupts_ = 0;  // SIGINT
  using Time = Clock::Steady::time_point;
  std::optional<Time> since_, sent_, ended_;
};

}  // namespace dtrain::supervisor
