#pragma once

// Chooses and makes the communicator for each purpose.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "config/config.h"
#include "dist/metered_communicator.h"
#include "dist/world.h"

namespace dtrain::dist {

// A communicator for host tensors, to gather states and to agree on decisions. It has a duplicate
// of MPI_COMM_WORLD and a thread of its own, so that several can be used side by side. Collective.
std::unique_ptr<MeteredCommunicator> make_host_communicator(const World&);

// A communicator for gradients on `device`: none where there is one rank; for CPU ranks what
// choose_host_backend() says; nccl if every rank has a GPU of its own; staged (through the host,
// and there as CPU ranks do) if ranks share one GPU or LibTorch's NCCL is missing, and mpi if ranks
// of a host cannot share memory, with a one-line warning from rank 0. `dist.backend` overrides
// this; DeviceError or ConfigError if what it asks for is impossible. The ranks describe their
// devices over `host`, so that the new communicator has carried nothing yet. Collective.
std::unique_ptr<MeteredCommunicator> make_gradient_communicator(Communicator& host,
                                                                const config::Dist&, const World&,
                                                                at::Device device);

// Call it before the first NCCL communicator of the process if operations of several will be in
// flight on one GPU (the buckets and the statistics of batch norm): NCCL then runs them in the
// order in which the host issued them, which is the same on all ranks. Otherwise one GPU could run
// A before B and another B before A, and both would wait forever if A and B do not fit on a GPU
// together. Sets NCCL_LAUNCH_ORDER_IMPLICIT, unless the user has.
void order_nccl_communicators();

// Call it before the first NCCL communicator of a process that captures operations in CUDA graphs.
// NCCL would register their buffers then: the ranks meet for that while they capture, where one of
// them may have failed, and what a rank captures would run by another algorithm than without.
// Sets NCCL_GRAPH_REGISTER to 0, unless the user has set it.
void keep_nccl_graphs_plain();

// What a rank computes on. uuid and bus_id are empty for the CPU.
struct RankDevice {
  std::string node, uuid, bus_id;
  // World::host: machines may share a name (containers), and bus ids are those of a machine
  int host = 0;
  bool is_cpu() const { return uuid.empty(); }
};

struct BackendChoice {
  std::optional<config::Backend>
      backend;               // not kAuto; none: there is one rank, and nothing travels
  std::string warning = {};  // why a faster one cannot be used; empty: this is the fastest
};

// How tensors of the host travel fastest: kSharedMemory on one host; kHierarchical on several hosts
// of which at least one has several ranks; else kMpi. Pure.
config::Backend choose_host_backend(std::span<const RankDevice> by_rank);

// The decision of make_gradient_communicator, the same on every rank. Pure.
BackendChoice choose_backend(config::Backend requested, std::span<const RankDevice> by_rank,
                             bool nccl_available);

}  // namespace dtrain::dist
