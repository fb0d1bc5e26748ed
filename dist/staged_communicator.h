#pragma once

// Collectives on a device's tensors by way of the host: for ranks that share one GPU, which NCCL refuses, or have no
// NCCL. Copies run on streams of their own through pinned memory; a thread carries each operation from one copy to the
// other, so that bucket k travels between hosts while k + 1 comes down and k - 1 goes up.

#include <memory>

#include "dist/communicator.h"

namespace dtrain::dist {

// Collective as far as `host` is; owns it. Tensors must be on `device` (also the CPU, which stages for nothing but
// tests).
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host, at::Device device);

}  // namespace dtrain::dist
