#pragma once

// What every command that runs under mpirun does first and last: MPI, this rank's cores and device, and one agreed exit
// code.

#include <torch/torch.h>

#include <functional>
#include <memory>

#include "config/config.h"
#include "dist/communicator.h"
#include "dist/world.h"

namespace dtrain::cli {

struct Launched {
  const dist::World& world;
  dist::MpiSession& mpi;
  at::Device device;
  int cores;                 // that this rank may keep busy
  dist::Communicator& host;  // for host tensors
};

// Starts MPI, widens the affinity, sets the threads, picks the device, runs `body`, and leaves: on the good path, and
// when all ranks agreed on a failure, they meet and return one code; otherwise this rank prints its error and ends the
// job.
int launch(const config::Device&, const std::function<int(Launched&)>& body);

}  // namespace dtrain::cli
