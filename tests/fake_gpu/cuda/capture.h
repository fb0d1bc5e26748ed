#pragma once

// Captures: streams that record the work which they are given in a graph (graph.h), and do not do
// it. What a capture forbids is an error, with the code that CUDA has for it.
//
// CUDA's programming guide ("Creating a graph using stream capture") and the reference of the
// functions say:
//   - A stream that waits for an event recorded in a capture joins it. All work of such streams
//     must come before what the first stream does last (StreamCaptureUnjoined).
//   - Neither a captured stream, nor its GPU, nor an event that was last recorded in a capture can
//     be waited for by the host, or asked (StreamCaptureUnsupported, CapturedEvent).
//   - A captured stream does not wait for an event that was recorded elsewhere, unless with
//     cudaEventWaitExternal (StreamCaptureIsolation), or in another capture (StreamCaptureMerge).
//   - The default stream cannot be captured. While a stream that it waits for is captured, it
//     cannot be used (StreamCaptureImplicit).
//   - Functions that may wait for the GPU are not called (StreamCaptureUnsupported): by any thread
//     while there is a capture of mode "global", and by the thread that began one of mode "thread
//     local". A thread of mode "relaxed" (cudaThreadExchangeStreamCaptureMode) may call them.
//   - The thread that began a capture ends it, unless its mode is "relaxed".
//   - After an error, all that a program asks of the capture, its streams and its events fails,
//     until the capture is ended, which fails too (StreamCaptureInvalidated).
//
// Stricter than CUDA, or not said by it:
//   - All functions by which the host waits or asks are among those that may wait for the GPU.
//   - A copy between a GPU and memory that is not pinned is an error. CUDA records some of these.
//     The copy is done at a launch, when that memory mostly belongs to something else.
//   - An event that was recorded in a capture cannot be waited for after that has ended.
//   - A graph cannot be launched into a capture, where CUDA makes it a part of the new one.
//
// Thread-safety: all functions may be called from any thread.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "cuda/schedule.h"

namespace fake_gpu {

struct Capture;

// A place in a capture. No capture: a stream is not captured, or an event was recorded elsewhere.
struct Captured {
  std::shared_ptr<Capture> by = {};
  size_t at = 0;  // of a stream: its number; of an event: the node before it
};

cudaError_t begin_capture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t end_capture(cudaStream_t, cudaGraph_t*);
void leave_capture(cudaStream_t);  // before it is destroyed

// `id` and the graph may be nullptr.
cudaError_t find_capture(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long* id,
                         cudaGraph_t*);

cudaStreamCaptureMode exchange_mode(cudaStreamCaptureMode of_this_thread);  // returns the last one

// These record what a stream is asked for, if it is captured, and return an error if it must not
// be. nullopt: the stream is not captured, and does what it is asked for.
std::optional<cudaError_t> record(cudaStream_t, const Step&, bool is_asked_for = true);
std::optional<cudaError_t> record_event(cudaStream_t, cudaEvent_t);
// `waits`: false if the wait is left out (waits.h); the stream joins the capture even so.
std::optional<cudaError_t> record_wait(cudaStream_t, cudaEvent_t, bool external, bool waits);

// Whether the host may wait for what is named, or ask it; otherwise an error.
cudaError_t check_host_may_wait(cudaStream_t);
cudaError_t check_host_may_wait(cudaEvent_t);
cudaError_t check_host_may_wait_for_gpu(int gpu);
// And whether it may call what may wait for a GPU.
cudaError_t check_host_may_wait();

// An error for a captured stream or event.
cudaError_t check_not_captured(cudaStream_t);
cudaError_t check_not_captured(cudaEvent_t);

}  // namespace fake_gpu
