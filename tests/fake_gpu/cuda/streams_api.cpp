// The part of the CUDA runtime that is about streams and events.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cuda/counts.h"
#include "cuda/faults.h"
#include "cuda/gpus.h"
#include "cuda/stream.h"
#include "cuda/waits.h"

using namespace fake_gpu;

namespace {

cudaError_t wait(const char* name, const Point& point) {
  FAKE_GPU_RETURN_IF_FAILED();
  count(Operation::kWait, name);
  if (waits_here(name)) finish(point);
  return cudaSuccess;
}

// The answer that it is not ready is no error, but cudaGetLastError() knows it.
cudaError_t query(const char* name, const Point& point) {
  FAKE_GPU_RETURN_IF_FAILED();
  count(Operation::kQuery, name);
  return !waits_here(name) || ask_whether(point) ? cudaSuccess : remember(cudaErrorNotReady);
}

Point end_of(cudaStream_t stream) {
  return work_waits() ? submit_later(queue_of(stream), {}) : Point{};
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  if (work_waits() && flags != cudaStreamNonBlocking) {
    std::fprintf(stderr, "fake GPU: a stream that waits for the default one is not known\n");
    std::abort();
  }
  *stream = new CUstream_st{std::make_shared<Queue>(Queue{.gpu = current_gpu()})};
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;  // its work is done later
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return query("cudaStreamQuery", end_of(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return wait("cudaStreamSynchronize", end_of(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const cudaError_t error = submit(stream, Operation::kEvent, "stream waits", {});
  if (error == cudaSuccess && work_waits() && waits_here("cudaStreamWaitEvent"))
    wait_later(queue_of(stream), event->point);
  return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  if (status != nullptr) *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode of_thread = cudaStreamCaptureModeGlobal;
  std::swap(*mode, of_thread);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  count(Operation::kEvent, "created");
  *event = new CUevent_st{.flags = flags};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  const auto reached = std::make_shared<CUevent_st::Time>();
  event->reached = reached;
  return submit(
      stream, Operation::kEvent, "recorded",
      [reached] { *reached = std::chrono::steady_clock::now(); }, &event->point);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return query("cudaEventQuery", event->point); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return wait("cudaEventSynchronize", event->point);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  FAKE_GPU_RETURN_IF_FAILED();
  const bool timed = ((begin->flags | end->flags) & cudaEventDisableTiming) == 0;
  if (!timed || !begin->reached || !end->reached) return remember(cudaErrorInvalidResourceHandle);
  if (!ask_whether(begin->point) || !ask_whether(end->point)) return remember(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(*end->reached - *begin->reached).count();
  return cudaSuccess;
}

}  // extern "C"
