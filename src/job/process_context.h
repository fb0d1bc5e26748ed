#pragma once

// One process of a job, as every command that runs under mpirun has it: its place among the ranks,
// its device and cores, and the communicator by which ranks agree. Ownership: launch() owns all of
// it; a body borrows it.

#include <torch/types.h>

#include <functional>

#include "config/config.h"
#include "data/hdf5/probe_process.h"
#include "dist/metered_communicator.h"
#include "dist/mpi_session.h"

namespace dtrain::job {

struct ProcessContext {
  const dist::World& world;
  dist::MpiSession& mpi;
  at::Device device;
  int cores;                        // that this rank may use
  int threads;                      // that compute
  dist::MeteredCommunicator& host;  // for host tensors
  data::ProbeProcess& prober;       // opens data files
};

// Forks the process that opens data files, starts MPI, widens the affinity, sets the number of
// threads, chooses the device and runs `body`. Returns the exit code, the same on all ranks, when
// `body` has returned everywhere or all ranks have agreed on a failure. On any other failure this
// rank prints its error and ends the whole job.
int launch(const config::Device&, const std::function<int(ProcessContext&)>& body);

// To be called while an exception is handled, before the communicators are destroyed: a rank that
// waits in them would find them gone, and end the job with a message and an exit code that say
// less. If there are several ranks, and they have not agreed on the exception, prints it and ends
// the whole job; returns otherwise.
void end_job_of_several(dist::MpiSession&);

}  // namespace dtrain::job
