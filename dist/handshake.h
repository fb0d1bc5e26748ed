#pragma once

// The first messages that ranks send each other, right after MPI_Init: each rank learns the host of
// every other one. MPI connects two ranks when they first communicate, and waits forever for a host
// that does not answer, so this is where a firewall between two hosts is found, before
// any collective.

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::dist {

struct Peer {
  std::string node;  // host name
  // Addresses of the network interfaces of its host, as own_addresses() returns them
  std::vector<std::string> addresses;
};

// Exchanges `own` with all ranks of MPI_COMM_WORLD; returns those of all, by rank. Throws CommError
// if some have not reached each other after `timeout` seconds in which this process really ran.
// Then the message names their hosts, and one rank throws it some seconds before the others: the
// lowest one that knows all hosts, or else the lowest of all. It is collective.
std::vector<Peer> shake_hands(const Peer& own, int rank, int size, double timeout);

// The message: `missing` has the pairs of ranks without connection, by what each rank says of
// itself. Pure.
std::string describe_unreached(std::span<const std::pair<int, int>> missing,
                               std::span<const std::string> nodes, double seconds);

}  // namespace dtrain::dist
