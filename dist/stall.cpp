#include "dist/stall.h"

#include <algorithm>
#include <vector>

#include "core/strings.h"

namespace dtrain::dist {
namespace {

constexpr size_t kNamed = 8;  // more names than this help nobody

bool waits_for_others(const RankState& state) { return state.leaving || state.phase == "all_reduce"; }

template <typename Predicate>
std::vector<RankState> those(std::span<const RankState> ranks, Predicate predicate) {
  std::vector<RankState> found;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(found), predicate);
  return found;
}

template <typename Say>
std::string name(std::span<const RankState> ranks, Say say) {
  std::vector<std::string> parts;
  for (const RankState& state : ranks.first(std::min(ranks.size(), kNamed))) parts.push_back(say(state));
  if (ranks.size() > kNamed) parts.push_back(str("and ", ranks.size() - kNamed, " more"));
  return join(parts, "; ");
}

std::string place(const RankState& state) { return str("phase ", state.phase, ", step ", state.step); }

}  // namespace

std::optional<std::string> describe_stall(std::span<const RankState> ranks, double timeout, double silence) {
  const auto present = those(ranks, [](const RankState& state) { return !state.leaving; });
  if (present.empty()) return std::nullopt;
  if (std::any_of(ranks.begin(), ranks.end(), [&](const RankState& s) { return s.standing < timeout; }))
    return std::nullopt;

  if (const auto silent = those(present, [&](const RankState& s) { return s.unheard >= silence; }); !silent.empty()) {
    return name(silent,
                [](const RankState& s) {
                  return str("rank ", s.rank, " has not been heard of for ", fixed(s.unheard, 1),
                             " s (last: ", place(s), ")");
                }) +
           ". Its process is stopped, its node is gone or cut off, or the machine swaps";
  }
  if (const auto stuck = those(present, [](const RankState& s) { return !waits_for_others(s); }); !stuck.empty()) {
    return name(stuck,
                [](const RankState& s) {
                  return str("rank ", s.rank, " stands still for ", fixed(s.standing, 1), " s in ", place(s));
                }) +
           ". If that is only slow, set a larger dist.timeout";
  }
  const int64_t last = std::min_element(present.begin(), present.end(), [](const RankState& a, const RankState& b) {
                         return a.step < b.step;
                       })->step;
  const auto behind = those(present, [&](const RankState& s) { return s.step == last; });
  return "all ranks wait for each other in collectives since " + fixed(timeout, 1) + " s; furthest behind: " +
         name(behind, [](const RankState& s) { return str("rank ", s.rank, " (", place(s), ")"); }) +
         ". The network stands still, or the ranks are not at the same operation";
}

}  // namespace dtrain::dist
