#pragma once

// Streams and events. The work of a stream is done when it is submitted, in the thread that submits
// it, or later (schedule.h).
//
// Thread-safety: all functions may be called from any thread.

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>

#include "cuda/counts.h"
#include "cuda/schedule.h"

struct CUstream_st {
  std::shared_ptr<fake_gpu::Queue> queue = {};
};

struct CUevent_st {
  using Time = std::chrono::steady_clock::time_point;

  unsigned flags = 0;
  fake_gpu::Point point = {};          // of its last record
  std::shared_ptr<Time> reached = {};  // when that was; nullptr: never recorded
};

namespace fake_gpu {

std::shared_ptr<Queue> queue_of(cudaStream_t);  // the default stream: of the current GPU

// Counts an operation and does `work`, on the stream. A GPU that has failed does nothing, and
// returns its error. `point`: receives where it is.
cudaError_t submit(cudaStream_t, Operation, const char* name, const std::function<void()>& work,
                   Point* point = nullptr);

// The host waits for what the stream was given before.
void finish(cudaStream_t);

// A kernel, or an operation of a library, whose numbers are not computed. Ends the process where
// numbers are asked for.
cudaError_t launch(cudaStream_t, const char* name);

// One whose numbers are computed by `work`.
cudaError_t launch(cudaStream_t, const char* name, const std::function<void()>& work);

}  // namespace fake_gpu
