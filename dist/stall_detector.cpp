#include "dist/stall_detector.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "text/strings.h"

namespace dtrain::dist {
namespace {

constexpr size_t kMostNamed = 8;  // a longer list of ranks does not help

bool waits_for_others(const RankState& state) {
  return state.leaving || state.phase == "all_reduce";
}

template <typename Predicate>
std::vector<RankState> those(std::span<const RankState> ranks, Predicate predicate) {
  std::vector<RankState> found;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(found), predicate);
  return found;
}

template <typename Describe>
std::string list(std::span<const RankState> ranks, Describe describe) {
  std::vector<std::string> parts;
  for (const RankState& state : ranks.first(std::min(ranks.size(), kMostNamed)))
    parts.push_back(describe(state));
  if (ranks.size() > kMostNamed) parts.push_back(str("and ", ranks.size() - kMostNamed, " more"));
  return join(parts, "; ");
}

std::string place(const RankState& state) {
  return str("phase ", state.phase, ", step ", state.step);
}

// What heard ranks do not hear although other heard ranks do: then the host is there, and not the
// way to it. Hosts are given by their lowest rank.
std::vector<Gap> gaps_between(std::span<const RankState> all, std::span<const RankState> heard,
                              std::span<const std::string> nodes, double settled) {
  const auto on = [&](const RankState& state, int host) {
    return nodes[static_cast<size_t>(state.rank)] == nodes[static_cast<size_t>(host)];
  };
  const auto hears = [&](const RankState& state, int host) {
    return !state.hears_few && all[static_cast<size_t>(host)].silent >= settled &&
           std::ranges::none_of(state.unheard, [&](const Gap& gap) { return gap.from == host; });
  };
  std::vector<Gap> gaps;
  for (const RankState& state : heard) {
    for (const Gap& gap : state.unheard) {
      const bool alive = std::ranges::any_of(heard, [&](const RankState& other) {
        return on(other, gap.from) || (!on(other, state.rank) && hears(other, gap.from));
      });
      if (alive) gaps.push_back(gap);
    }
  }
  return gaps;
}

// Silent ranks of one host that were in the same place, and have been silent for about as long, are
// one part.
std::string describe_silent(std::span<const RankState> silent, std::span<const std::string> nodes) {
  std::map<std::pair<std::string, std::string>, std::vector<RankState>> groups;
  for (const RankState& s : silent)
    groups[{nodes[static_cast<size_t>(s.rank)], place(s)}].push_back(s);
  std::vector<std::pair<int, std::string>> parts;
  for (const auto& [key, group] : groups) {
    std::vector<int> numbers;
    for (const RankState& s : group) numbers.push_back(s.rank);
    const auto shortest = std::ranges::min_element(group, {}, &RankState::silent);
    parts.emplace_back(
        numbers.front(),
        str(ranks_on(numbers, nodes), numbers.size() == 1 ? " has" : " have",
            " sent no heartbeat for ", fixed(shortest->silent, 1), " s (last: ", key.second, ")"));
  }
  std::ranges::sort(parts);
  std::vector<std::string> texts;
  for (const auto& part : std::span(parts).first(std::min(parts.size(), kMostNamed)))
    texts.push_back(part.second);
  if (parts.size() > kMostNamed) texts.push_back("and others");
  const std::string& host = nodes[static_cast<size_t>(silent.front().rank)];
  return join(texts, "; ") +
         (several_hosts(nodes) ? str(". The host is down or unreachable (`ssh ", host,
                                     " true` tells), its processes are stopped, or it is swapping")
                               : ". Its process is stopped, or the machine is swapping");
}

}  // namespace

std::optional<PeerError> describe_stall(std::span<const RankState> ranks,
                                        std::span<const std::string> nodes, double timeout,
                                        double silence, double settled) {
  const auto present = those(ranks, [](const RankState& state) { return !state.leaving; });
  if (present.empty()) return std::nullopt;
  if (std::ranges::any_of(ranks, [&](const RankState& s) { return s.stalled < timeout; }))
    return std::nullopt;

  const auto heard = those(present, [&](const RankState& s) { return s.silent < silence; });
  if (const std::vector<Gap> gaps = gaps_between(ranks, heard, nodes, settled); !gaps.empty()) {
    return PeerError(str("no rank has made progress for ", fixed(timeout, 1),
                         " s: ", describe_gaps(gaps, nodes)));
  }
  const auto silent = those(present, [&](const RankState& s) { return s.silent >= silence; });
  if (!silent.empty()) return PeerError(describe_silent(silent, nodes), silent.front().rank);
  if (const auto stuck = those(present, [](const RankState& s) { return !waits_for_others(s); });
      !stuck.empty()) {
    // The host of a GPU runs ahead of it: a rank that waits for another one's part may be found in
    // any phase of a later step. So the cause is in the earliest step.
    const int64_t first = std::ranges::min_element(stuck, {}, &RankState::step)->step;
    const auto earliest = those(stuck, [first](const RankState& s) { return s.step == first; });
    const std::string text = list(earliest, [nodes](const RankState& s) {
      return str(ranks_on({s.rank}, nodes), " has made no progress for ", fixed(s.stalled, 1),
                 " s in ", place(s));
    });
    return PeerError(text + ". If it is only slow, set a larger dist.timeout",
                     earliest.front().rank);
  }
  const auto last = std::ranges::min_element(present, {}, &RankState::step);
  const auto behind = those(present, [&](const RankState& s) { return s.step == last->step; });
  const std::string names = list(behind, [nodes](const RankState& s) {
    return str(ranks_on({s.rank}, nodes), " (", place(s), ")");
  });
  return PeerError(str("all ranks have waited for each other in collectives for ",
                       fixed(timeout, 1), " s; furthest behind: ", names,
                       ". The network is down, or the ranks are not at the same operation"));
}

StallDetector::StallDetector(int rank, std::vector<std::string> nodes, double timeout,
                             double longest_interval, const Clock& clock)
    : rank_(rank),
      nodes_(std::move(nodes)),
      timeout_(timeout),
      longest_interval_(longest_interval),
      clock_(clock),
      last_update_(clock.now()),
      reports_(nodes_.size()) {
  const std::string& own = nodes_[static_cast<size_t>(rank)];
  std::map<std::string, std::vector<int>> hosts;
  for (size_t other = 0; other < nodes_.size(); ++other) {
    if (nodes_[other] != own) hosts[nodes_[other]].push_back(static_cast<int>(other));
  }
  for (auto& [name, ranks] : hosts) other_hosts_.push_back(std::move(ranks));
}

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

void StallDetector::note_unheard(
    const std::function<bool(int rank, double seconds)>& packets_since) {
  Heartbeat& own = reports_[static_cast<size_t>(rank_)].heartbeat;
  own.unheard = 0;
  for (const std::vector<int>& host : other_hosts_) {
    double least = std::numeric_limits<double>::infinity();
    bool left = false;
    for (const int rank : host) {
      least = std::min(least, silent(static_cast<size_t>(rank)));
      left = left || reports_[static_cast<size_t>(rank)].heartbeat.leaving != 0;
    }
    if (left || least < silence()) continue;
    if (own.unheard < std::ssize(own.unheard_ranks)) {
      own.unheard_ranks[own.unheard] = host.front();
      // Until the host was cut off it may have answered the last heartbeats of this rank, which are
      // a period apart.
      own.packets[own.unheard] = packets_since(host.front(), least - 2 * longest_interval_) ? 1 : 0;
    }
    ++own.unheard;
  }
}

void StallDetector::leave() { reports_[static_cast<size_t>(rank_)].heartbeat.leaving = 1; }

void StallDetector::receive(int from, const Heartbeat& heartbeat) {
  reports_[static_cast<size_t>(from)] = {heartbeat, now_};
}

bool StallDetector::all_left() const {
  return std::ranges::all_of(reports_, [](const Report& r) { return r.heartbeat.leaving != 0; });
}

std::optional<PeerError> StallDetector::judge() const {
  std::vector<RankState> states;
  for (const auto& [heartbeat, when] : reports_) {
    const auto rank = static_cast<int>(states.size());
    const double silent = this->silent(states.size());
    // A rank that still sends heartbeats may have moved since the last one: only the next one can
    // tell. A rank that leaves stops sending them.
    const double stalled =
        heartbeat.stalled + (silent >= silence() || heartbeat.leaving != 0 ? silent : 0);
    states.push_back(
        {rank, silent, stalled, heartbeat.phase, heartbeat.step, heartbeat.leaving != 0});
    const auto listed = std::min<size_t>(static_cast<size_t>(heartbeat.unheard),
                                         std::size(heartbeat.unheard_ranks));
    for (size_t i = 0; i < listed; ++i) {
      states.back().unheard.push_back(
          {rank, heartbeat.unheard_ranks[i], heartbeat.packets[i] != 0});
    }
    states.back().hears_few = heartbeat.unheard > static_cast<int>(listed);
  }
  const bool lowest_alive =
      std::all_of(states.begin(), states.begin() + rank_,
                  [&](const RankState& s) { return s.silent >= silence() || s.leaving; });
  const double patience = lowest_alive ? 0 : 2 + 2 * longest_interval_;
  return describe_stall(states, nodes_, timeout_ + patience, silence(),
                        silence() + 2 * longest_interval_);
}

}  // namespace dtrain::dist
