#pragma once

// A GPU that fails: from the launch that a test names, every call of the process answers
// cudaErrorIllegalAddress, as CUDA does after a kernel that touched memory that is not its own. The
// launch itself succeeds, because its kernel runs later.
//
// Thread-safety: all functions may be called from any thread.

#include <cuda_runtime_api.h>

namespace fake_gpu {

bool failed();         // the GPU of this process
void launch_counts();  // one more launch, after which the GPU may have failed

// The error of the calling thread's last call, as cudaGetLastError() reports it.
cudaError_t remember(cudaError_t);  // returns it; cudaSuccess changes nothing
cudaError_t take_last_error();      // and forgets it, unless the GPU has failed
cudaError_t last_error();

}  // namespace fake_gpu

// Leaves a function of the CUDA runtime if the GPU has failed.
#define FAKE_GPU_RETURN_IF_FAILED() \
  if (fake_gpu::failed()) return cudaErrorIllegalAddress
