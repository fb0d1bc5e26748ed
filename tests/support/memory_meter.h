#pragma once

// Bytes of CPU tensors that a thread allocates, for tests of what is held.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace dtrain {

// Current and peak.
class MemoryMeter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now() const { return now_; }
  int64_t peak() const { return peak_; }

 private:
  int64_t now_ = 0, peak_ = 0;
};

// While the guard lives, `meter` counts what this thread, and backward passes that it starts, allocate and free.
inline c10::DebugInfoGuard metered(const std::shared_ptr<MemoryMeter>& meter) {
  return {c10::DebugInfoKind::PROFILER_STATE, meter};
}

}  // namespace dtrain
