#pragma once

#include <mpi.h>

#include "dist/world.h"

namespace dtrain::testing {

// The world of a test under tests/support/mpi_main.cpp, which owns MPI instead of an MpiSession.
inline dist::World world_of_test() {
  dist::World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  world.local_rank = world.rank;
  world.local_size = world.size;
  world.node = "test";
  return world;
}

// The same ranks, as if every `hosts`-th of them were on one host: that of rank 0, that of rank 1,
// and so on.
inline dist::World world_on_hosts(int hosts) {
  dist::World world = world_of_test();
  world.host = world.rank % hosts;
  world.local_rank = world.rank / hosts;
  world.local_size = (world.size - world.host + hosts - 1) / hosts;
  return world;
}

}  // namespace dtrain::testing
