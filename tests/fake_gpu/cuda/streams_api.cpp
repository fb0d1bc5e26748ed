// The part of the CUDA runtime that is about streams and events.

#include <cuda_runtime_api.h>

#include <chrono>

#include "cuda/counts.h"
#include "cuda/faults.h"
#include "cuda/gpus.h"
#include "cuda/stream.h"

using namespace fake_gpu;

namespace {

cudaError_t wait(const char* name) {
  FAKE_GPU_RETURN_IF_FAILED();
  count(Operation::kWait, name);
  return cudaSuccess;
}

cudaError_t query(const char* name) {
  FAKE_GPU_RETURN_IF_FAILED();
  count(Operation::kQuery, name);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t) { return query("cudaStreamQuery"); }

cudaError_t cudaStreamSynchronize(cudaStream_t) { return wait("cudaStreamSynchronize"); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
  return submit(stream, Operation::kEvent, "stream waits", {});
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
  return submit(stream, Operation::kEvent, "recorded", [event] {
    event->recorded = true;
    event->reached = std::chrono::steady_clock::now();
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t) { return query("cudaEventQuery"); }

cudaError_t cudaEventSynchronize(cudaEvent_t) { return wait("cudaEventSynchronize"); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  FAKE_GPU_RETURN_IF_FAILED();
  const bool timed = ((begin->flags | end->flags) & cudaEventDisableTiming) == 0;
  if (!timed || !begin->recorded || !end->recorded) return remember(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(end->reached - begin->reached).count();
  return cudaSuccess;
}

}  // extern "C"
