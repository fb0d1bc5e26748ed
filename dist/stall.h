#pragma once

// Who holds everyone up, from what each rank last said of itself. Pure: the judgement of watchdog.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dtrain::dist {

struct RankState {
  int rank = 0;
  double unheard = 0;   // seconds since the last beat came
  double standing = 0;  // seconds since the rank's training thread last made progress, as far as is known here
  std::string phase;    // where it was then
  int64_t step = 0;
  bool leaving = false;  // waits in close() for the others, and sends no more beats
};

// A message if no rank has made progress for `timeout` seconds, naming those at fault: ranks not heard of for at least
// `silence` seconds (stopped, or cut off); else ranks that stand outside of a collective; else the ranks furthest
// behind, for then the ranks wait in different collectives. A rank that waits for others in "all_reduce" is a victim.
std::optional<std::string> describe_stall(std::span<const RankState> ranks, double timeout, double silence);

}  // namespace dtrain::dist
