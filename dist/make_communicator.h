#pragma once

// Which communicator carries what.

#include <memory>
#include <span>
#include <string>

#include "config/config.h"
#include "dist/communicator.h"
#include "dist/world.h"

namespace dtrain::dist {

// A communicator for host tensors (gathering states, agreeing on decisions). Its own duplicate of MPI_COMM_WORLD and
// its own thread, so several may be used side by side. Collective.
std::unique_ptr<Communicator> make_host_communicator(const World&);

// For gradients on `device`: mpi for CPU; nccl when every rank has a GPU of its own; staged (through the host) when
// ranks share one GPU or LibTorch's NCCL is missing, with a one-line warning from rank 0. `dist.backend` overrides;
// DeviceError or ConfigError if that is impossible. Collective.
std::unique_ptr<Communicator> make_gradient_communicator(const config::Dist&, const World&, at::Device device);

// What a rank computes on. Empty strings: the CPU.
struct RankDevice {
  std::string node, uuid, bus_id;
  bool is_cpu() const { return uuid.empty(); }
};

struct BackendChoice {
  std::string name;     // mpi | nccl | staged
  std::string warning;  // why not the faster one; empty: it is
};

// The decision of make_gradient_communicator, the same on every rank. Pure.
BackendChoice choose_backend(const std::string& requested, std::span<const RankDevice> by_rank, bool nccl_available);

}  // namespace dtrain::dist
