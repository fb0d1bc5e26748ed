#pragma once

// How much a communicator has carried, and how long that took: for the dtrain_collective_* metrics
// and for traces.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "trace/recorder.h"

namespace dtrain::dist {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
  kCount
};
inline constexpr size_t kCollectives = static_cast<size_t>(Collective::kCount);
inline constexpr std::array<const char*, kCollectives> kCollectiveNames = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};

struct Carried {
  int64_t bytes = 0;  // that this rank gave to the operations (broadcast: that it sent or received)
  double seconds =
      0;  // while an operation ran, which includes the wait for ranks that began it later
};
using Traffic =
    std::array<Carried, kCollectives>;  // by Collective, since the communicator was made

// Operations of a few bytes take less than a microsecond, so adding one takes no lock and no locked
// instruction. Thread-safety: one thread at a time adds; the other methods may be called from
// any thread.
class TrafficMeter {
 public:
  void add(Collective operation, int64_t bytes, trace::Time began, trace::Time ended) {
    Sum& sum = sums_[static_cast<size_t>(operation)];
    sum.bytes.store(sum.bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    sum.nanoseconds.store(sum.nanoseconds.load(std::memory_order_relaxed) + (ended - began),
                          std::memory_order_relaxed);
    if (!recording_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (!track_) return;
    track_->add({.name = kCollectiveNames[static_cast<size_t>(operation)],
                 .begin = began,
                 .end = ended,
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

  // For what a communicator exchanges on its own account: while a Pause exists, operations that are
  // issued are not to be counted, whenever they end. Whoever issues one asks counts().
  class Pause {
   public:
    explicit Pause(TrafficMeter& meter) : meter_(meter) { meter_.counts_.store(false); }
    ~Pause() { meter_.counts_.store(true); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    TrafficMeter& meter_;
  };
  bool counts() const { return counts_.load(std::memory_order_relaxed); }

 private:
  struct Sum {
    std::atomic<int64_t> bytes = 0, nanoseconds = 0;
  };
  std::array<Sum, kCollectives> sums_;
  std::atomic<bool> recording_ = false;
  std::mutex mutex_;
  trace::Track* track_ = nullptr;
  std::atomic<bool> counts_ = true;
};

}  // namespace dtrain::dist
