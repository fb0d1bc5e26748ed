#pragma once

// How fast the links between hosts are, measured at the start of a job on several hosts. Every
// all-reduce waits for the slowest link, and the time that it takes does not say which one that is.
//
// The hosts form a ring. The lowest rank of each measures the links to its two neighbors, one after
// the other and in both directions, while other links are measured at the same time: the time that
// this takes does not grow with the number of hosts. A message of 64 KiB, or of 1 MiB where that is
// quick; the best of three counts, because something else may have delayed the others.

#include <span>
#include <string>
#include <vector>

#include "dist/world.h"

namespace dtrain::dist {

struct LinkSpeed {
  int from = 0, to = 0;  // hosts, by their lowest ranks
  double bytes_per_second = 0;
};

// Rank 0 gets the speeds, the others nothing; with one host no rank does. Waits for the other hosts
// without a limit: the watchdog has to run. Throws CommError. Collective.
std::vector<LinkSpeed> probe_links(const World&);

// Names the hosts and the links that are less than a quarter as fast as most others, by direction,
// and what helps. "" if there are none. `nodes`: the host names, by rank. Pure.
std::string describe_slow_links(std::span<const LinkSpeed> links,
                                std::span<const std::string> nodes);

// Which links are measured at the same time, so that no host measures two: link i is that of host i
// and the next one of the ring. Pure.
std::vector<std::vector<int>> rounds_of_links(int hosts);

}  // namespace dtrain::dist
