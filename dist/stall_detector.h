#pragma once

// Decides whether the job has stalled and which ranks are the cause, from what each rank last
// reported about itself. The judgment of watchdog.h, without its thread and its messages.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dist/peer_error.h"
#include "dist/rank_names.h"

namespace dtrain::dist {

struct RankState {
  int rank = 0;
  double silent = 0;  // seconds since the last heartbeat arrived
  // Seconds since the rank's training thread last made progress, as far as is known here
  double stalled = 0;
  std::string phase;  // where it was then
  int64_t step = 0;
  bool leaving = false;  // waits in Watchdog::close() for the others, without heartbeats
  // Hosts of which this rank hears no rank at all, as far as it said so. `of` is this rank.
  std::vector<Gap> unheard = {};
  bool hears_few = false;  // there are more of them than it could say
};

// An error if no rank has made progress for `timeout` seconds, else nothing. It names what is at
// fault: pairs of hosts that do not reach each other, while others reach both; else the ranks that
// have been silent for at least `silence` seconds (stopped, or cut off); else those that are
// stalled outside of a collective, in the earliest step of such ranks; else those furthest behind,
// because the ranks then wait in different collectives. A rank that waits for others in
// "all_reduce" is never the cause. Its peer is the first rank that is silent or stalled. `nodes`:
// the hosts of all ranks, as in rank_names.h. After `settled` seconds of silence others have had
// the time to notice it and to say so. Pure.
std::optional<PeerError> describe_stall(std::span<const RankState> ranks,
                                        std::span<const std::string> nodes, double timeout,
                                        double silence, double settled);

// What a rank reports about itself to the others. Sent as bytes.
struct Heartbeat {
  double stalled = 0;  // seconds without progress of its training thread
  int64_t step = 0;
  char phase[32] = "start";
  int64_t leaving = 0;  // 1: the last heartbeat of this rank
  // Hosts of which it hears no rank, by their lowest rank: how many, the first of them, and whether
  // packets arrive.
  int32_t unheard = 0;
  int32_t unheard_ranks[8] = {};
  int32_t packets[8] = {};
};

// One rank's view of all ranks. It counts only the time in which this process really ran: an
// interval between two updates counts as at most `longest_interval`, so that a job that was
// suspended and continues raises no alarm. Thread-safety: none.
class StallDetector {
 public:
  // `nodes`: the hosts of all ranks, by rank.
  StallDetector(int rank, std::vector<std::string> nodes, double timeout, double longest_interval,
                const Clock& clock = real_clock());

  // Takes over how often this rank's training thread has made progress, and where it is. Returns
  // the seconds that this process has run. Call it before the other methods, at least every
  // `longest_interval` seconds.
  double update(uint64_t progress, const char* phase, int64_t step);
  // For the next heartbeat: other hosts that this rank hears nothing of. `packets_since(rank,
  // seconds)` says whether packets have arrived from the host of that rank in the last
  // `seconds`. Call it after receive().
  void note_unheard(const std::function<bool(int rank, double seconds)>& packets_since);
  void leave();  // this rank waits for the others from now on
  void receive(int from, const Heartbeat&);

  const Heartbeat& own() const { return reports_[static_cast<size_t>(rank_)].heartbeat; }
  bool all_left() const;

  // The error of describe_stall(). The lowest rank that is alive reports first; the others only if
  // it does not, some seconds later.
  std::optional<PeerError> judge() const;

 private:
  struct Report {
    Heartbeat heartbeat;
    double when = 0;  // on this rank's clock
  };

  double silent(size_t rank) const { return now_ - reports_[rank].when; }
  double silence() const { return timeout_ / 2; }  // after which a rank counts as silent

  const int rank_;
  const std::vector<std::string> nodes_;
  std::vector<std::vector<int>> other_hosts_;  // their ranks
  const double timeout_, longest_interval_;
  const Clock& clock_;
  Clock::Steady::time_point last_update_;
  double now_ = 0;  // seconds that this process has run
  double progress_at_ = 0;
  uint64_t progress_ = 0;
  std::vector<Report> reports_;  // one per rank, in rank order
};

}  // namespace dtrain::dist
