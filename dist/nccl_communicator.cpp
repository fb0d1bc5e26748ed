#include "dist/nccl_communicator.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "dist/backoff.h"
#include "dist/peer_error.h"
#include "dist/side_stream.h"
#include "text/library_text.h"

namespace dtrain::dist {
namespace {

constexpr auto kFinalizeTimeout = std::chrono::seconds(5);

std::string version_text(int code) {
  return str(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

// A newer 2.x has the functions and structures of the older ones.
void check_version() {
  int loaded = 0;
  if (ncclGetVersion(&loaded) != ncclSuccess)
    throw DeviceError("NCCL does not report its version: is libnccl.so.2 damaged?");
  if (loaded == NCCL_VERSION_CODE) return;
  const std::string built = version_text(NCCL_VERSION_CODE), running = version_text(loaded);
  if (loaded < NCCL_VERSION_CODE || loaded / 10000 != NCCL_MAJOR) {
    throw DeviceError(str("dtrain was built with NCCL ", built, " and runs with ", running,
                          ": use the NCCL of its LibTorch (see LD_LIBRARY_PATH and LD_PRELOAD), or "
                          "set dist.backend staged"));
  }
  static std::once_flag said;
  std::call_once(said, [&] {
    log::info(str("NCCL ", running, " is newer than ", built, ", which dtrain was built with"));
  });
}

ncclDataType_t nccl_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return ncclFloat64;
    case at::kFloat:
      return ncclFloat32;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kHalf:
      return ncclFloat16;
    case at::kLong:
      return ncclInt64;
    case at::kByte:
      return ncclUint8;
    default:
      throw Error(str("internal error: NCCL cannot transfer tensors of ", c10::toString(dtype)));
  }
}

ncclRedOp_t nccl_op(ReduceOp op) { return op == ReduceOp::kSum ? ncclSum : ncclMax; }

class NcclCommunicator final : public MeteredCommunicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, at::Device device)
      : MeteredCommunicator(host->rank(), host->size()),
        host_(std::move(host)),
        device_(device),
        side_(device) {
    check_version();
    const at::Tensor id_bytes = at::zeros({static_cast<int64_t>(sizeof(ncclUniqueId))}, at::kByte);
    auto* id = reinterpret_cast<ncclUniqueId*>(id_bytes.data_ptr<uint8_t>());
    if (rank() == 0 && ncclGetUniqueId(id) != ncclSuccess) {
      throw CommError(str("NCCL finds no usable network interface: ", ncclGetLastError(nullptr),
                          ". Name one with NCCL_SOCKET_IFNAME"));
    }
    host_->broadcast(id_bytes, 0).wait();
    const c10::DeviceGuard guard(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, size(), *id, rank(), &config);
    try {
      settle(result, "ncclCommInitRankConfig");
    } catch (...) {
      abort("it could not be created");
      throw;
    }
  }

  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() == 0) finalize();
    abort("it was destroyed");
  }

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    return run(Collective::kAllReduce, inout.nbytes(), {inout}, "ncclAllReduce", [&] {
      return ncclAllReduce(inout.data_ptr(), inout.data_ptr(), count(inout),
                           nccl_type(inout.scalar_type()), nccl_op(op), comm_, stream());
    });
  }

  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(out.numel() == size() * in.numel() && in.dtype() == out.dtype());
    return run(Collective::kAllGather, in.nbytes(), {out, in}, "ncclAllGather", [&] {
      return ncclAllGather(in.data_ptr(), out.data_ptr(), count(in), nccl_type(in.scalar_type()),
                           comm_, stream());
    });
  }

  Work broadcast(at::Tensor inout, int root) override {
    return run(Collective::kBroadcast, inout.nbytes(), {inout}, "ncclBroadcast", [&] {
      return ncclBroadcast(inout.data_ptr(), inout.data_ptr(), count(inout),
                           nccl_type(inout.scalar_type()), root, comm_, stream());
    });
  }

  void barrier() override {
    Backoff backoff;
    for (const Mark all = side_.run({}, [] {}); !all.passed(); backoff.wait()) throw_if_failed();
    throw_if_failed();
    const trace::Time began = trace::now();
    host_->barrier();
    meter_.add(Collective::kBarrier, 0, {began, trace::now()});
  }

  void abort(std::string_view reason) noexcept override {
    host_->abort(reason);
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (reason_.empty()) reason_ = reason;
      comm = std::exchange(comm_, nullptr);
    }
    if (comm) ncclCommAbort(comm);  // may take long, and check() must not wait for it
  }

  std::string_view name() const override { return "nccl"; }

  void check() override { throw_if_failed(); }

  bool can_be_captured() const override { return true; }

  std::function<void()> captured() override {
    std::vector<std::pair<Collective, int64_t>> operations;
    operations.swap(captured_);
    return [this, operations] {
      const std::lock_guard lock(in_flight_mutex_);
      for (const auto& [kind, bytes] : operations) meter_.add(kind, bytes, {});
    };
  }

  // What the device has finished.
  Traffic traffic() override {
    drain();
    return meter_.totals();
  }

  // Times of the device are placed on the host's clock by a point that it passes now.
  void record(trace::Track* track) override {
    if (track == nullptr) return meter_.record(nullptr);
    drain();
    const Mark now = side_.run(
        {}, [] {}, /*timed=*/true);
    for (Backoff backoff; !now.passed(); backoff.wait()) throw_if_failed();
    const std::lock_guard lock(in_flight_mutex_);
    record_began_ = now;
    record_origin_ = trace::now();
    meter_.record(track);
  }

 private:
  struct InFlight {
    Collective kind;
    int64_t bytes;
    Mark begun, done;
  };
  static trace::Time nanoseconds(double seconds) { return static_cast<trace::Time>(seconds * 1e9); }
  static size_t count(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(side_.stream().native_handle()); }

  template <typename Call>
  Work run(Collective kind, size_t bytes, std::initializer_list<at::Tensor> tensors,
           const char* what, Call call) {
    for (const at::Tensor& tensor : tensors) {
      DTRAIN_CHECK(tensor.is_contiguous() && tensor.device() == device_, what, " of a tensor on ",
                   tensor.device().str());
    }
    const c10::DeviceGuard guard(device_);
    // What is recorded in a graph has no time of its own, and the past must not be asked for then.
    const bool captures =
        c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
    if (!captures) drain();
    Mark begun;
    const Mark done = side_.run_after_current(
        tensors,
        [&] {
          if (!captures) begun = Mark(side_.stream(), /*timed=*/true);
          ncclResult_t result = ncclSuccess;
          {
            const std::lock_guard lock(mutex_);
            throw_if_gone();
            result = call();
          }
          settle(result, what);
        },
        /*timed=*/!captures);
    if (captures) {
      captured_.emplace_back(kind, static_cast<int64_t>(bytes));
    } else {
      const std::lock_guard lock(in_flight_mutex_);
      in_flight_.push_back({kind, static_cast<int64_t>(bytes), begun, done});
    }
    return Work([this, done]() -> std::optional<TimeSpan> {
      throw_if_failed();
      done.order_before_current(device_);
      return std::nullopt;
    });
  }

  // Counts the operations that the device has finished; they end in their order.
  void drain() {
    const std::lock_guard lock(in_flight_mutex_);
    for (; !in_flight_.empty() && in_flight_.front().done.passed(); in_flight_.pop_front()) {
      const InFlight& ended = in_flight_.front();
      const trace::Time began =
          record_origin_ + nanoseconds(record_began_.seconds_until(ended.begun));
      meter_.add(ended.kind, ended.bytes,
                 {began, began + nanoseconds(ended.begun.seconds_until(ended.done))});
    }
  }

  // A call on a non-blocking communicator returns before it has ended; the communicator's state
  // says how it ended.
  void settle(ncclResult_t result, const char* what) {
    for (Backoff backoff; result == ncclInProgress; backoff.wait()) result = state();
    if (result != ncclSuccess) throw_error(result, what);
  }

  ncclResult_t state() const {
    const std::lock_guard lock(mutex_);
    throw_if_gone();
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
    return asked == ncclSuccess ? result : asked;
  }

  void throw_if_failed() const {
    const ncclResult_t result = state();
    if (result != ncclSuccess && result != ncclInProgress) throw_error(result, "a collective");
  }

  void throw_if_gone() const {
    if (!comm_) throw PeerError("the nccl communicator can no longer be used: " + reason_);
  }

  [[noreturn]] void throw_error(ncclResult_t result, const char* what) const {
    // A GPU that has failed makes NCCL's calls fail, too: its error goes before theirs. Asked
    // without waiting, and not while a graph is captured, which the question would end.
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusActive;
    if (cudaStreamIsCapturing(stream(), &capturing) == cudaSuccess &&
        capturing == cudaStreamCaptureStatusNone) {
      const cudaError_t of_device = cudaStreamQuery(stream());
      if (of_device != cudaErrorNotReady) C10_CUDA_CHECK(of_device);
    }
    const std::lock_guard lock(mutex_);
    const std::string why =
        str(what, " failed: ", ncclGetErrorString(result), " (", ncclGetLastError(comm_), ")");
    if (says_out_of_memory(why)) {
      throw DeviceError(
          why +
          ": the GPU has too little memory left for NCCL's buffers. Use a smaller --batch-size");
    }
    throw PeerError(why + ". NCCL_DEBUG=WARN prints more; dist.backend staged works without NCCL");
  }

  // Waits for the operations that were issued, but not for long: a peer may have failed.
  void finalize() noexcept {
    try {
      const c10::DeviceGuard guard(device_);
      {
        const std::lock_guard lock(mutex_);
        if (!comm_) return;
        const ncclResult_t result = ncclCommFinalize(comm_);
        if (result != ncclSuccess && result != ncclInProgress) return;
      }
      const auto deadline = std::chrono::steady_clock::now() + kFinalizeTimeout;
      Backoff backoff;
      while (state() == ncclInProgress) {
        if (std::chrono::steady_clock::now() > deadline) return;
        backoff.wait();
      }
      const std::lock_guard lock(mutex_);
      if (comm_) ncclCommDestroy(std::exchange(comm_, nullptr));
    } catch (const std::exception&) {
      // abort() follows
    }
  }

  std::unique_ptr<Communicator> host_;
  at::Device device_;
  SideStream side_;
  TrafficMeter meter_;
  std::mutex in_flight_mutex_;
  std::deque<InFlight> in_flight_;                        // not counted yet, in the order of issue
  std::vector<std::pair<Collective, int64_t>> captured_;  // with their bytes, in the graph so far
  Mark record_began_;  // passed by the device when the host's clock was at record_origin_
  trace::Time record_origin_ = 0;
  mutable std::mutex mutex_;  // guards comm_ and reason_; held only around calls that do not block
  ncclComm_t comm_ = nullptr;
  std::string reason_;
};

}  // namespace

std::string nccl_versions() {
  int loaded = 0;
  if (ncclGetVersion(&loaded) != ncclSuccess) return "unknown";
  const std::string built = version_text(NCCL_VERSION_CODE), running = version_text(loaded);
  return built == running ? built : str(running, " (built with ", built, ")");
}

bool nccl_available() { return true; }

std::unique_ptr<MeteredCommunicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                            at::Device device) {
  return std::make_unique<NcclCommunicator>(std::move(host), device);
}

}  // namespace dtrain::dist
