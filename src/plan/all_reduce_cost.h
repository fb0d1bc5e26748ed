#pragma once

// The time of one all-reduce on ranks of several nodes, by the α-β model with the algorithms of the
// library that would carry it. NCCL chooses, by size, between a ring and a tree and between three
// protocols; its own estimate of each is calculated here with its own constants. CPU ranks add up
// within each node, in shared memory, and the nodes exchange the sums over MPI
// (dist/hierarchical_communicator.h), so that the bytes leave a node once. With dist.backend mpi
// they exchange slices directly between all ranks (dist/mpi_communicator.cpp), and the bytes leave
// it once per rank. Pure.

#include <cstdint>

#include "plan/links.h"
#include "text/named_enum.h"

namespace dtrain::plan {

enum class Library { kNccl, kHierarchical, kMpi };
constexpr auto names_of(Library) { return names("nccl", "hierarchical", "mpi"); }

struct Fabric {
  Link inside, between;
  int64_t ranks_per_node = 1;
  Library library = Library::kNccl;

  int64_t nodes(int64_t ranks) const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

// Time of one all-reduce of `bytes` from each rank; 0 on one rank, where nothing travels.
double all_reduce_seconds(const Fabric&, int64_t ranks, double bytes);

// What each rank sends for it: 2 (n - 1) / n of the bytes, by any of the algorithms that move
// the least.
double all_reduce_sent(int64_t ranks, double bytes);

}  // namespace dtrain::plan
