#pragma once

// Decides whether the job has stalled and which ranks are the cause, from what each rank last reported about itself.
// The judgment of watchdog.h, without its thread and its messages.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.h"

namespace dtrain::dist {

struct RankState {
  int rank = 0;
  double silent = 0;   // seconds since the last heartbeat arrived
  double stalled = 0;  // seconds since the rank's training thread last made progress, as far as is known here
  std::string phase;   // where it was then
  int64_t step = 0;
  bool leaving = false;  // waits in Watchdog::close() for the others, and sends no more heartbeats
};

// A message if no rank has made progress for `timeout` seconds, else nothing. It names the ranks at fault: those that
// have been silent for at least `silence` seconds (stopped, or cut off); else those that are stalled outside of a
// collective, in the earliest step of such ranks; else those furthest behind, because the ranks then wait in different
// collectives. A rank that waits for others in "all_reduce" is never the cause. Pure.
std::optional<std::string> describe_stall(std::span<const RankState> ranks, double timeout, double silence);

// What a rank reports about itself to the others. Sent as bytes.
struct Heartbeat {
  double stalled = 0;  // seconds without progress of its training thread
  int64_t step = 0;
  char phase[32] = "start";
  int64_t leaving = 0;  // 1: the last heartbeat of this rank
};

// One rank's view of all ranks. It counts only the time in which this process really ran: an interval between two
// updates counts as at most `longest_interval`, so that a job that was suspended and continues raises no alarm.
// Thread-safety: none.
class StallDetector {
 public:
  StallDetector(int rank, int size, double timeout, double longest_interval, const Clock& clock = real_clock());

  // Takes over how often this rank's training thread has made progress, and where it is. Returns the seconds that this
  // process has run. Call it before the other methods, at least every `longest_interval` seconds.
  double update(uint64_t progress, const char* phase, int64_t step);
  void leave();  // this rank waits for the others from now on
  void receive(int from, const Heartbeat&);

  const Heartbeat& own() const { return reports_[static_cast<size_t>(rank_)].heartbeat; }
  bool all_left() const;

  // The message of describe_stall(). The lowest rank that is alive reports first; the others only if it does
  // not, some seconds later.
  std::optional<std::string> judge() const;

 private:
  struct Report {
    Heartbeat heartbeat;
    double when = 0;  // on this rank's clock
  };

  const int rank_;
  const double timeout_, longest_interval_;
  const Clock& clock_;
  Clock::Steady::time_point last_update_;
  double now_ = 0;  // seconds that this process has run
  double progress_at_ = 0;
  uint64_t progress_ = 0;
  std::vector<Report> reports_;  // by rank
};

}  // namespace dtrain::dist
