#pragma once

// Collectives on GPU tensors through the host, for ranks that share one GPU, which NCCL refuses, or
// that have no NCCL. Copies run on streams of their own through pinned memory, and a thread runs
// each operation between its two copies, so that bucket k travels between hosts while bucket k + 1
// is copied to the host and bucket k - 1 back to the GPU. The pinned memory is its own, because
// CUDA copies beside the computation only to and from such memory.

#include <memory>

#include "dist/metered_communicator.h"

namespace dtrain::dist {

// Owns `host`, which counts for it. Tensors must be on `device`, which may be the CPU in tests.
std::unique_ptr<MeteredCommunicator> make_staged_communicator(
    std::unique_ptr<MeteredCommunicator> host, at::Device device);

}  // namespace dtrain::dist
