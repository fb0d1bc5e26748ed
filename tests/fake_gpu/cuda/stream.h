#pragma once

// Streams and events. The work of a stream is done when it is submitted, in the thread that submits
// it: what a GPU may do in another order is another matter than what a run asks of it.
//
// Thread-safety: all functions may be called from any thread.

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>

#include "cuda/counts.h"

struct CUstream_st {};

struct CUevent_st {
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point reached = {};  // when its stream did
};

namespace fake_gpu {

// Counts an operation and does `work`, on the stream. A GPU that has failed does nothing, and
// returns its error.
cudaError_t submit(cudaStream_t, Operation, const char* name, const std::function<void()>& work);

// A kernel, or an operation of a library, whose numbers are not computed.
cudaError_t launch(cudaStream_t, const char* name);

}  // namespace fake_gpu
