#include "cuda/capture.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/graph.h"
#include "cuda/stream.h"

namespace fake_gpu {

struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();  // that began it
  bool invalid = false, ended = false;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  std::vector<cudaStream_t> streams = {};  // nullptr: destroyed
  std::vector<size_t> last = {};           // node of each stream

  void add(size_t stream, std::optional<size_t> after, const Step& step, bool is_asked_for = true) {
    last.at(stream) = graph->nodes.size();
    graph->nodes.push_back({stream, after, step, is_asked_for});
  }

  void join(const std::shared_ptr<Capture>& self, cudaStream_t stream,
            std::optional<size_t> after) {
    stream->captured = {self, streams.size()};
    streams.push_back(stream);
    graph->gpus.push_back(stream->queue->gpu);
    last.push_back(0);
    add(stream->captured.at, after, {});
  }

  bool is_waited_for_by_default_stream() const {
    return std::any_of(streams.begin(), streams.end(), [](cudaStream_t stream) {
      return stream != nullptr && stream->is_blocking;
    });
  }
};

namespace {

struct Captures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> underway;
  std::atomic<size_t> count = 0;  // of them, to be read without the mutex
  unsigned long long last_id = 0;
};

Captures& captures() {
  static auto* one = new Captures;  // used until the process has ended
  return *one;
}

bool none_underway() { return captures().count == 0; }

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

// ---- the mutex is held --------------------------------------------------------------------------
cudaError_t invalidate(Capture& capture, cudaError_t error) {
  return std::exchange(capture.invalid, true) ? cudaErrorStreamCaptureInvalidated : error;
}

// Use of the default stream.
cudaError_t use_default_stream() {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures().underway)
    if (capture->is_waited_for_by_default_stream())
      error = invalidate(*capture, cudaErrorStreamCaptureImplicit);
  return error;
}

Capture* capture_of(cudaStream_t stream) {
  return is_default(stream) ? nullptr : stream->captured.by.get();
}

cudaError_t call_that_may_wait() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures().underway) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = own ? capture->mode != cudaStreamCaptureModeRelaxed
                             : mode_of_thread == cudaStreamCaptureModeGlobal &&
                                   capture->mode == cudaStreamCaptureModeGlobal;
    if (forbids) error = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t refuse_if_captured(cudaStream_t stream) {
  if (is_default(stream)) return use_default_stream();
  Capture* capture = capture_of(stream);
  return capture == nullptr ? cudaSuccess : invalidate(*capture, cudaErrorStreamCaptureUnsupported);
}

void end(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (cudaStream_t stream : capture->streams)
    if (stream != nullptr) stream->captured = {};
  std::erase(captures().underway, capture);
  captures().count = captures().underway.size();
}

}  // namespace

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (is_default(stream)) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(captures().mutex);
  if (stream->captured.by != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>(Capture{.id = ++captures().last_id, .mode = mode});
  capture->join(capture, stream, std::nullopt);
  captures().underway.push_back(std::move(capture));
  captures().count = captures().underway.size();
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(captures().mutex);
  if (capture_of(stream) == nullptr) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream->captured.by;
  const bool own = capture->thread == std::this_thread::get_id();
  if (stream->captured.at != 0) return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  if (!own && capture->mode != cudaStreamCaptureModeRelaxed)
    return invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  end(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!join(*capture->graph)) return cudaErrorStreamCaptureUnjoined;
  *graph = capture->graph.release();
  return cudaSuccess;
}

void leave_capture(cudaStream_t stream) {
  if (none_underway()) return;
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<Capture> capture = stream->captured.by;
  if (capture == nullptr) return;
  capture->invalid = true;
  capture->streams[stream->captured.at] = nullptr;
  if (stream->captured.at == 0) end(capture);  // it has no other end
}

cudaError_t find_capture(cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph) {
  *status = cudaStreamCaptureStatusNone;
  if (none_underway()) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  const auto& underway = captures().underway;
  if (is_default(stream)) {  // the capture stays valid
    const bool waits = std::any_of(underway.begin(), underway.end(), [](const auto& capture) {
      return capture->is_waited_for_by_default_stream();
    });
    return waits ? cudaErrorStreamCaptureImplicit : cudaSuccess;
  }
  const Capture* capture = capture_of(stream);
  if (capture == nullptr) return cudaSuccess;
  *status = capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = capture->graph.get();
  return cudaSuccess;
}

cudaStreamCaptureMode exchange_mode(cudaStreamCaptureMode mode) {
  return std::exchange(mode_of_thread, mode);
}

std::optional<cudaError_t> record(cudaStream_t stream, const Step& step, bool is_asked_for) {
  if (none_underway()) return std::nullopt;
  const std::lock_guard lock(captures().mutex);
  if (is_default(stream)) {
    const cudaError_t error = use_default_stream();
    return error == cudaSuccess ? std::nullopt : std::optional(error);
  }
  Capture* capture = capture_of(stream);
  if (capture == nullptr) return std::nullopt;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  capture->add(stream->captured.at, std::nullopt, step, is_asked_for);
  return cudaSuccess;
}

std::optional<cudaError_t> record_event(cudaStream_t stream, cudaEvent_t event) {
  const std::lock_guard lock(captures().mutex);
  event->captured = {};
  const Capture* capture = capture_of(stream);
  if (capture == nullptr) return std::nullopt;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event->captured = {stream->captured.by, capture->last[stream->captured.at]};
  return cudaSuccess;
}

std::optional<cudaError_t> record_wait(cudaStream_t stream, cudaEvent_t event, bool external,
                                       bool waits) {
  const std::shared_ptr<Capture>& by = event->captured.by;
  if (none_underway()) {
    if (external) return cudaErrorInvalidValue;
    return by == nullptr ? std::nullopt : std::optional(cudaErrorCapturedEvent);
  }
  const std::lock_guard lock(captures().mutex);
  Capture* const capture = capture_of(stream);
  if (external) {
    if (capture == nullptr) return cudaErrorInvalidValue;
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    const Step step = [record = event->record](const std::shared_ptr<Queue>& queue) {
      if (!work_waits()) return Point{};
      wait_later(queue, record->point);
      return submit_later(queue, {});
    };
    if (waits) capture->add(stream->captured.at, std::nullopt, step);
    return cudaSuccess;
  }
  if (by == nullptr) {
    if (capture != nullptr) return invalidate(*capture, cudaErrorStreamCaptureIsolation);
    return std::nullopt;
  }
  if (by->ended) {
    return capture == nullptr ? cudaErrorCapturedEvent
                              : invalidate(*capture, cudaErrorCapturedEvent);
  }
  if (by->invalid) return cudaErrorStreamCaptureInvalidated;
  if (is_default(stream)) return invalidate(*by, cudaErrorStreamCaptureImplicit);
  if (capture == nullptr) {
    by->join(by, stream, waits ? event->captured.at : 0);
  } else if (capture != by.get()) {
    invalidate(*capture, cudaErrorStreamCaptureMerge);
    return invalidate(*by, cudaErrorStreamCaptureMerge);
  } else if (waits) {
    capture->add(stream->captured.at, event->captured.at, {});
  }
  return cudaSuccess;
}

cudaError_t check_not_captured(cudaStream_t stream) {
  if (none_underway()) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  return refuse_if_captured(stream);
}

cudaError_t check_not_captured(cudaEvent_t event) {
  const std::shared_ptr<Capture>& by = event->captured.by;
  if (by == nullptr) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  return by->ended ? cudaErrorCapturedEvent : invalidate(*by, cudaErrorCapturedEvent);
}

cudaError_t check_host_may_wait(cudaStream_t stream) {
  if (none_underway()) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  const cudaError_t error = refuse_if_captured(stream);
  return error == cudaSuccess ? call_that_may_wait() : error;
}

cudaError_t check_host_may_wait(cudaEvent_t event) {
  const cudaError_t error = check_not_captured(event);
  return error == cudaSuccess ? check_host_may_wait() : error;
}

cudaError_t check_host_may_wait_for_gpu(int gpu) {
  if (none_underway()) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures().underway) {
    const std::vector<int>& gpus = capture->graph->gpus;
    if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end())
      error = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error == cudaSuccess ? call_that_may_wait() : error;
}

cudaError_t check_host_may_wait() {
  if (none_underway()) return cudaSuccess;
  const std::lock_guard lock(captures().mutex);
  return call_that_may_wait();
}

}  // namespace fake_gpu
