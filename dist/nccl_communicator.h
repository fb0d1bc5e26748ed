#pragma once

// Collectives between GPUs, one rank per GPU, through the NCCL that LibTorch loads. They run on a
// high-priority stream of their own, and the host waits for nothing. The communicator is
// non-blocking, so that abort() unblocks a rank that waits for others, during start-up too. NCCL
// sums float16 and bfloat16 in their own type (other communicators in float32): a float16 sum over
// ranks can overflow, so gradients should be float32.
//
// Without DTRAIN_CUDA, nccl_communicator_none.cpp takes the place of the implementation and
// throws DeviceError.

#include <memory>
#include <string>

#include "dist/metered_communicator.h"

namespace dtrain::dist {

bool nccl_available();
// "2.28.9", both of the header and of the library if they differ; "none" without it
std::string nccl_versions();

// Owns `host`, which carries NCCL's unique id and the barriers. DeviceError if the NCCL at run time
// is not the version that dtrain was built with; CommError if NCCL cannot connect the
// ranks. Collective.
std::unique_ptr<MeteredCommunicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                            at::Device device);

}  // namespace dtrain::dist
