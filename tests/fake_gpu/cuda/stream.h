#pragma once

// Streams and events. The work of a stream is done when it is submitted, in the thread that submits
// it, or later (schedule.h), or recorded and done when a graph is launched (capture.h).
//
// Thread-safety: all functions may be called from any thread.

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>

#include "cuda/capture.h"
#include "cuda/counts.h"
#include "cuda/schedule.h"

struct CUstream_st {
  std::shared_ptr<fake_gpu::Queue> queue = {};
  bool is_blocking = false;          // the default stream waits for it, and it for that one
  fake_gpu::Captured captured = {};  // guarded by capture.cpp
};

struct CUevent_st {
  using Time = std::chrono::steady_clock::time_point;

  struct Record {  // the last one outside of captures, or by a graph
    fake_gpu::Point point = {};
    std::shared_ptr<Time> reached = {};  // when that was; nullptr: never recorded
  };

  unsigned flags = 0;
  std::shared_ptr<Record> record = std::make_shared<Record>();  // shared with graphs
  fake_gpu::Captured captured = {};                             // where it was recorded last
};

namespace fake_gpu {

bool is_default(cudaStream_t);
std::shared_ptr<Queue> queue_of(cudaStream_t);  // the default stream: of the current GPU

// Counts an operation and does `work`, on the stream. A GPU that has failed does nothing, and
// returns its error.
cudaError_t submit(cudaStream_t, Operation, const char* name, const std::function<void()>& work);
cudaError_t submit_step(cudaStream_t, Operation, const char* name, const Step&);

// The host waits for what the stream was given before, if it may.
cudaError_t finish(cudaStream_t);

// A kernel, or an operation of a library, whose numbers are not computed. Ends the process where
// numbers are asked for.
cudaError_t launch(cudaStream_t, const char* name);

// One whose numbers are computed by `work`.
cudaError_t launch(cudaStream_t, const char* name, const std::function<void()>& work);
cudaError_t launch_step(cudaStream_t, const char* name, const Step&);

}  // namespace fake_gpu
