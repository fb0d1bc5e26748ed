#pragma once

// A high-priority stream beside the caller's current one, so that transfers run while the caller
// computes. Events on the device order the two; the host waits for nothing. On the CPU, where work
// is done when the call returns, there is no stream and no event. Thread-safety: all methods may be
// called from any thread, as CUDA's own.

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>

namespace dtrain::dist {

// A point in a stream's work that other streams, or the host, can wait for. An empty one (CPU) has
// passed already.
class Mark {
 public:
  Mark() = default;
  explicit Mark(const c10::Stream& stream, bool timed = false)
      : event_(std::make_shared<c10::Event>(
            stream.device_type(),
            timed ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT)) {
    event_->record(stream);
  }
  void order_before(const c10::Stream& stream) const {
    if (event_) stream.wait(*event_);
  }
  // What is issued to the caller's current stream from now on runs after this point.
  void order_before_current(at::Device device) const {
    if (event_) order_before(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  bool passed() const { return !event_ || event_->query(); }
  void synchronize() const {  // the host waits until it has passed
    if (event_) event_->synchronize();
  }
  // The device's time between the two. Requires: both are timed, and `later` has passed.
  double seconds_until(const Mark& later) const {
    return event_ && later.event_ ? 1e-3 * event_->elapsedTime(*later.event_) : 0;
  }

 private:
  std::shared_ptr<c10::Event> event_;
};

class SideStream {
 public:
  explicit SideStream(at::Device device) : device_(device) {
    if (!device.is_cpu()) {
      stream_ = c10::impl::VirtualGuardImpl(device.type())
                    .getStreamFromGlobalPool(device, /*isHighPriority=*/true);
    }
  }
  c10::Stream stream() const { return *stream_; }  // requires a GPU

  // Calls `issue` with this stream as the current one. What it issues runs after everything that is
  // in the caller's current stream. It may use only `tensors`, whose memory is not reused before
  // this stream is done with it.
  Mark run_after_current(std::initializer_list<at::Tensor> tensors,
                         const std::function<void()>& issue, bool timed = false) const {
    if (stream_)
      Mark(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_)).order_before(*stream_);
    return run(tensors, issue, timed);
  }

  // The same, without waiting for the current stream.
  Mark run(std::initializer_list<at::Tensor> tensors, const std::function<void()>& issue,
           bool timed = false) const {
    if (!stream_) {
      issue();
      return {};
    }
    const c10::StreamGuard guard(*stream_);
    issue();
    for (const at::Tensor& tensor : tensors) tensor.record_stream(*stream_);
    return Mark(*stream_, timed);
  }

 private:
  at::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace dtrain::dist
