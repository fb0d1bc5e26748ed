#include "dist/stall_detector.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/strings.h"

namespace dtrain::dist {
namespace {

constexpr size_t kMostNamed = 8;  // a longer list of ranks is no more useful

bool is_behind(const RankState& a, const RankState& b) { return a.step < b.step; }
bool waits_for_others(const RankState& state) { return state.leaving || state.phase == "all_reduce"; }

template <typename Predicate>
std::vector<RankState> those(std::span<const RankState> ranks, Predicate predicate) {
  std::vector<RankState> found;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(found), predicate);
  return found;
}

template <typename Describe>
std::string list(std::span<const RankState> ranks, Describe describe) {
  std::vector<std::string> parts;
  for (const RankState& state : ranks.first(std::min(ranks.size(), kMostNamed))) parts.push_back(describe(state));
  if (ranks.size() > kMostNamed) parts.push_back(str("and ", ranks.size() - kMostNamed, " more"));
  return join(parts, "; ");
}

std::string place(const RankState& state) { return str("phase ", state.phase, ", step ", state.step); }

}  // namespace

std::optional<std::string> describe_stall(std::span<const RankState> ranks, double timeout, double silence) {
  const auto present = those(ranks, [](const RankState& state) { return !state.leaving; });
  if (present.empty()) return std::nullopt;
  if (std::any_of(ranks.begin(), ranks.end(), [&](const RankState& s) { return s.stalled < timeout; }))
    return std::nullopt;

  if (const auto silent = those(present, [&](const RankState& s) { return s.silent >= silence; }); !silent.empty()) {
    return list(silent,
                [](const RankState& s) {
                  return str("rank ", s.rank, " has sent no heartbeat for ", fixed(s.silent, 1), " s (last: ", place(s),
                             ")");
                }) +
           ". Its process is stopped, its node is down or unreachable, or the machine is swapping";
  }
  if (const auto stuck = those(present, [](const RankState& s) { return !waits_for_others(s); }); !stuck.empty()) {
    // The host of a GPU runs ahead of it: a rank that waits for another one's part may be found in any phase of a later
    // step. So the cause is in the earliest step.
    const int64_t first = std::min_element(stuck.begin(), stuck.end(), is_behind)->step;
    return list(those(stuck, [first](const RankState& s) { return s.step == first; }),
                [](const RankState& s) {
                  return str("rank ", s.rank, " has made no progress for ", fixed(s.stalled, 1), " s in ", place(s));
                }) +
           ". If it is only slow, set a larger dist.timeout";
  }
  const auto last = std::min_element(present.begin(), present.end(), is_behind);
  const auto behind = those(present, [&](const RankState& s) { return s.step == last->step; });
  return str("all ranks have waited for each other in collectives for ", fixed(timeout, 1), " s; furthest behind: ",
             list(behind, [](const RankState& s) { return str("rank ", s.rank, " (", place(s), ")"); }),
             ". The network is down, or the ranks are not at the same operation");
}

StallDetector::StallDetector(int rank, int size, double timeout, double longest_interval, const Clock& clock)
    : rank_(rank),
      timeout_(timeout),
      longest_interval_(longest_interval),
      clock_(clock),
      last_update_(clock.now()),
      reports_(static_cast<size_t>(size)) {}

double StallDetector::update(uint64_t progress, const char* phase, int64_t step) {
  const auto time = clock_.now();
  now_ += std::min(std::chrono::duration<double>(time - last_update_).count(), longest_interval_);
  last_update_ = time;
  if (progress != progress_) progress_at_ = now_;
  progress_ = progress;
  Report& self = reports_[static_cast<size_t>(rank_)];
  self.when = now_;
  self.heartbeat.stalled = now_ - progress_at_;
  self.heartbeat.step = step;
  std::strncpy(self.heartbeat.phase, phase, sizeof self.heartbeat.phase - 1);
  return now_;
}

void StallDetector::leave() { reports_[static_cast<size_t>(rank_)].heartbeat.leaving = 1; }

void StallDetector::receive(int from, const Heartbeat& heartbeat) {
  reports_[static_cast<size_t>(from)] = {heartbeat, now_};
}

bool StallDetector::all_left() const {
  return std::all_of(reports_.begin(), reports_.end(), [](const Report& r) { return r.heartbeat.leaving != 0; });
}

std::optional<std::string> StallDetector::judge() const {
  const double silence = timeout_ / 2;
  std::vector<RankState> states;
  for (const auto& [heartbeat, when] : reports_) {
    const double silent = now_ - when;
    // A rank that still sends heartbeats may have moved since the last one: only the next one can tell. A rank that
    // leaves sends no more of them.
    const double stalled = heartbeat.stalled + (silent >= silence || heartbeat.leaving != 0 ? silent : 0);
    states.push_back(
        {static_cast<int>(states.size()), silent, stalled, heartbeat.phase, heartbeat.step, heartbeat.leaving != 0});
  }
  const bool lowest_alive = std::all_of(states.begin(), states.begin() + rank_,
                                        [&](const RankState& s) { return s.silent >= silence || s.leaving; });
  const double patience = lowest_alive ? 0 : 2 + 2 * longest_interval_;
  return describe_stall(states, timeout_ + patience, silence);
}

}  // namespace dtrain::dist
