#pragma once

// The communicator of a rank that is alone: nothing travels, so it needs no NCCL, no MPI and no
// thread. A sum over one rank is the tensor itself.

#include <memory>

#include "dist/metered_communicator.h"

namespace dtrain::dist {

// For tensors of any device.
std::unique_ptr<MeteredCommunicator> make_lone_communicator();

}  // namespace dtrain::dist
