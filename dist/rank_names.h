#pragma once

// How messages name ranks, hosts, and pairs of hosts that do not reach each other. `nodes` has the
// host name of each rank; it is empty, or the same for all ranks, where there is one host, which no
// message needs to name.
// Pure. Thread-safety: any thread.

#include <span>
#include <string>
#include <vector>

namespace dtrain::dist {

bool several_hosts(std::span<const std::string> nodes);

std::string rank_numbers(const std::vector<int>& ranks);  // "rank 3", "ranks 0-2,5"
// With the host, if there are several: "ranks 6-7 on host3". The ranks are all on the host of the
// first one.
std::string ranks_on(const std::vector<int>& ranks, std::span<const std::string> nodes);

// What the ranks of one host know of those of another one, from which they hear nothing. Both by
// any of their ranks.
struct Gap {
  int of = 0, from = 0;
  bool packets_arrive = false;  // all the same: then it is the other direction that is cut
};

// Which hosts do not reach each other, in which direction as far as that is known, and what helps.
// `gaps` is not empty; several of the same two hosts are one.
std::string describe_gaps(std::span<const Gap> gaps, std::span<const std::string> nodes);

}  // namespace dtrain::dist
