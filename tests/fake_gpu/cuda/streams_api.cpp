// The part of the CUDA runtime that is about streams and events.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cuda/capture.h"
#include "cuda/counts.h"
#include "cuda/faults.h"
#include "cuda/gpus.h"
#include "cuda/stream.h"
#include "cuda/waits.h"

using namespace fake_gpu;

namespace {

// `checked`: whether the host may wait, or ask.
cudaError_t wait(const char* name, cudaError_t checked, const Point& point) {
  FAKE_GPU_RETURN_IF_FAILED();
  if (checked != cudaSuccess) return remember(checked);
  count(Operation::kWait, name);
  if (waits_here(name)) finish(point);
  return cudaSuccess;
}

// The answer that it is not ready is no error, but cudaGetLastError() knows it.
cudaError_t query(const char* name, cudaError_t checked, const Point& point) {
  FAKE_GPU_RETURN_IF_FAILED();
  if (checked != cudaSuccess) return remember(checked);
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
  *stream = new CUstream_st{.queue = std::make_shared<Queue>(Queue{.gpu = current_gpu()}),
                            .is_blocking = flags != cudaStreamNonBlocking};
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  leave_capture(stream);
  delete stream;  // its work is done later
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return query("cudaStreamQuery", check_host_may_wait(stream), end_of(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return wait("cudaStreamSynchronize", check_host_may_wait(stream), end_of(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  FAKE_GPU_RETURN_IF_FAILED();
  const bool waits = !work_waits() || waits_here("cudaStreamWaitEvent");
  const bool external = flags == cudaEventWaitExternal;
  if (const auto recorded = record_wait(stream, event, external, waits)) {
    if (*recorded == cudaSuccess) count(Operation::kCaptured, "stream waits");
    return remember(*recorded);
  }
  const cudaError_t error = submit(stream, Operation::kEvent, "stream waits", {});
  if (error == cudaSuccess && work_waits() && waits)
    wait_later(queue_of(stream), event->record->point);
  return error;
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

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  FAKE_GPU_RETURN_IF_FAILED();
  if (flags == cudaEventRecordExternal) {
    cudaStreamCaptureStatus status{};
    if (find_capture(stream, &status, nullptr, nullptr) != cudaSuccess ||
        status == cudaStreamCaptureStatusNone)
      return remember(cudaErrorInvalidValue);
    event->captured = {};
  } else if (const auto recorded = record_event(stream, event)) {
    if (*recorded == cudaSuccess) count(Operation::kCaptured, "recorded");
    return remember(*recorded);
  }
  const auto step = [record = event->record](const std::shared_ptr<Queue>& queue) {
    const auto reached = std::make_shared<CUevent_st::Time>();
    record->reached = reached;
    return record->point = give(queue, [reached] { *reached = std::chrono::steady_clock::now(); });
  };
  return submit_step(stream, Operation::kEvent, "recorded", step);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return query("cudaEventQuery", check_host_may_wait(event), event->record->point);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return wait("cudaEventSynchronize", check_host_may_wait(event), event->record->point);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  FAKE_GPU_RETURN_IF_FAILED();
  for (cudaEvent_t event : {begin, end})
    if (const cudaError_t error = check_not_captured(event); error != cudaSuccess)
      return remember(error);
  const bool timed = ((begin->flags | end->flags) & cudaEventDisableTiming) == 0;
  const CUevent_st::Record &from = *begin->record, &to = *end->record;
  if (!timed || !from.reached || !to.reached) return remember(cudaErrorInvalidResourceHandle);
  if (!ask_whether(from.point) || !ask_whether(to.point)) return remember(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(*to.reached - *from.reached).count();
  return cudaSuccess;
}

}  // extern "C"
