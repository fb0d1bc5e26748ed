#pragma once

// How much a communicator has carried, and how long that took (metered_communicator.h).

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "dist/communicator.h"
#include "trace/recorder.h"

namespace dtrain::dist {

enum class Collective : uint8_t { kAllReduce, kAllGather, kBroadcast, kBarrier, kCount };
inline constexpr size_t kCollectives = static_cast<size_t>(Collective::kCount);
inline constexpr std::array<const char*, kCollectives> kCollectiveNames = {
    "all_reduce", "all_gather", "broadcast", "barrier"};

struct Carried {
  int64_t bytes = 0;  // that this rank gave to the operations (broadcast: that it sent or received)
  // While an operation ran, which includes the wait for ranks that began it later
  double seconds = 0;
};
// One entry per Collective, since the communicator was made
using Traffic = std::array<Carried, kCollectives>;

// Operations of a few bytes take less than a microsecond, so adding one takes no lock and no locked
// instruction. Thread-safety: one thread at a time adds; the other methods may be called from
// any thread.
class TrafficMeter {
 public:
  void add(Collective operation, int64_t bytes, const TimeSpan& ran) {
    Sum& sum = sums_[static_cast<size_t>(operation)];
    sum.bytes.store(sum.bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    sum.nanoseconds.store(sum.nanoseconds.load(std::memory_order_relaxed) + (ran.ended - ran.began),
                          std::memory_order_relaxed);
    if (!recording_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (!track_) return;
    track_->add({.name = kCollectiveNames[static_cast<size_t>(operation)],
                 .begin = ran.began,
                 .end = ran.ended,
                 .kind = trace::Kind::kOperation,
                 .a = bytes});
  }
  void record(trace::Track* track) {  // from now on; nullptr: no longer
    const std::lock_guard lock(mutex_);
    track_ = track;
    recording_.store(track != nullptr, std::memory_order_release);
  }
  Traffic totals() const {
    Traffic totals;
    for (size_t i = 0; i < kCollectives; ++i) {
      totals[i].bytes = sums_[i].bytes.load(std::memory_order_relaxed);
      totals[i].seconds =
          1e-9 * static_cast<double>(sums_[i].nanoseconds.load(std::memory_order_relaxed));
    }
    return totals;
  }

 private:
  struct Sum {
    std::atomic<int64_t> bytes = 0, nanoseconds = 0;
  };
  std::array<Sum, kCollectives> sums_;
  std::atomic<bool> recording_ = false;
  std::mutex mutex_;
  trace::Track* track_ = nullptr;
};

}  // namespace dtrain::dist
