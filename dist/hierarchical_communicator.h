#pragma once

// Collectives on host tensors among the ranks of several hosts, made of a communicator within each
// host (shared memory) and of communicators between hosts (MPI, or any other). An all_reduce
// crosses the network once per host, not once per rank: the ranks of a host add up among
// themselves, then each of them exchanges a slice of the sum with the ranks of the same number on
// the other hosts, and gives it to its host. Small tensors are exchanged by the first rank of each
// host alone. Tensors larger than a chunk are pipelined: a chunk is added up within the host while
// the one before it is between hosts.
//
// Hosts may have different numbers of ranks, placed in any order. There are then as many slices as
// the host with the fewest ranks has ranks.
//
// The order of addition follows from the placement of the ranks: within each host by rank, then
// over the hosts. So the result is the same from run to run, for every size and kind of memory.
// float16 and bfloat16 are rounded once within a host and once between hosts.
//
// Errors of either communicator are those of this one, on the rank that meets them, and abort both.
// That ends the waits of the ranks of the same host where they share memory; ranks of other hosts
// are ended by the end of the process.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dist/communicator.h"

namespace dtrain::dist {

// Where a rank is: which host, counted in the order of their lowest ranks, and which of the ranks
// of that host.
struct RankPlace {
  int host = 0, local = 0;
  bool operator==(const RankPlace&) const = default;
};

// The place of each rank. `host_by_rank[r]` is any number that the ranks of a host have in common,
// and no other host has. Pure.
std::vector<RankPlace> places_of(std::span<const int> host_by_rank);

// How many ranks the host with the fewest ranks has. Pure.
int least_ranks_of_a_host(std::span<const RankPlace> places);

struct HierarchicalOptions {
  // A tensor of at most this size is exchanged by one rank of each host
  int64_t small_bytes = 16 << 10;
  int64_t chunk_bytes = 1 << 20;  // size of a chunk of a tensor in the pipeline
};

// `places` of all ranks; the new communicator has the rank `rank` among them. `within_host`
// connects the ranks of this rank's host, ranked by RankPlace::local. `between_hosts` connects the
// ranks with this rank's RankPlace::local, one of each host, ranked by RankPlace::host; nullptr if
// some host has no such rank. Both are used by this communicator alone from now on, on a thread of
// its own. Memory of allocate() is that of `within_host`. Collective.
std::unique_ptr<Communicator> make_hierarchical_communicator(
    int rank, std::vector<RankPlace> places, std::unique_ptr<Communicator> within_host,
    std::unique_ptr<Communicator> between_hosts, const HierarchicalOptions& options = {});

}  // namespace dtrain::dist
