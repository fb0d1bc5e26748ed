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

}  // namespace dtrain::testing
