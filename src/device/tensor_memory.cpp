#include "device/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/Logging.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace dtrain::device {
namespace {

// LibTorch's own interface for memory profilers. Memory that was allocated before is freed without
// being counted.
class Counter final : public c10::MemoryReportingInfoBase {
 public:
  explicit Counter(TensorMemory::Listener listener) : listener_(std::move(listener)) {}

  bool memoryProfilingEnabled() const override { return true; }

  void reportMemoryUsage(void* pointer, int64_t bytes, size_t, size_t, c10::Device) override {
    const std::lock_guard lock(mutex_);
    // An allocation at a known address: a thread that does not report has freed what was there.
    forget(pointer);
    if (bytes <= 0) return;
    sizes_[pointer] = bytes;
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    if (listener_) listener_(pointer, bytes, held_);
  }

  int64_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  void forget(void* pointer) {
    const auto known = sizes_.find(pointer);
    if (known == sizes_.end()) return;
    held_ -= known->second;
    if (listener_) listener_(pointer, -known->second, held_);
    sizes_.erase(known);
  }

  const TensorMemory::Listener listener_;
  mutable std::mutex mutex_;  // autograd's threads report, too
  std::unordered_map<void*, int64_t> sizes_;
  int64_t held_ = 0, peak_ = 0;
};

// The CPU allocator warns of memory that is older than the profiler.
class WithoutWarnings {
 public:
  WithoutWarnings() : before_(level().exchange(kErrorsOnly)) {}
  ~WithoutWarnings() { level() = before_; }
  WithoutWarnings(const WithoutWarnings&) = delete;
  WithoutWarnings& operator=(const WithoutWarnings&) = delete;

 private:
  static constexpr int kErrorsOnly = 2;
  static std::atomic_ref<int> level() { return std::atomic_ref<int>(FLAGS_caffe2_log_level); }

  const int before_;
};

}  // namespace

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

class TensorMemory::Impl {
 public:
  explicit Impl(Listener listener) : counter(std::make_shared<Counter>(std::move(listener))) {}

  const std::shared_ptr<Counter> counter;

 private:
  const WithoutWarnings quiet_;
  const c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counter};
};

TensorMemory::TensorMemory(Listener listener)
    : impl_(std::make_unique<Impl>(std::move(listener))) {}
TensorMemory::~TensorMemory() = default;
int64_t TensorMemory::held() const { return impl_->counter->held(); }
int64_t TensorMemory::peak() const { return impl_->counter->peak(); }

}  // namespace dtrain::device
