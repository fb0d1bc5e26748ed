#pragma once

// How much a communicator has carried, and how long that took: for the dtrain_collective_* metrics and for traces.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "trace/recorder.h"

namespace dtrain::dist {

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier, kCount };
inline constexpr size_t kCollectives = static_cast<size_t>(Collective::kCount);
inline constexpr std::array<const char*, kCollectives> kCollectiveNames = {"all_reduce", "reduce_scatter", "all_gather",
                                                                           "broadcast", "barrier"};

struct Carried {
  int64_t bytes = 0;   // that this rank gave to the operations (broadcast: that it sent or received)
  double seconds = 0;  // while an operation ran, which includes the wait for ranks that began it later
};
using Traffic = std::array<Carried, kCollectives>;  // by Collective, since the communicator was made

// Thread-safety: all methods may be called from any thread.
class TrafficMeter {
 public:
  void add(Collective operation, int64_t bytes, trace::Time began, trace::Time ended) {
    const double seconds = 1e-9 * static_cast<double>(ended - began);
    const std::lock_guard lock(mutex_);
    if (track_) {
      track_->add({.name = kCollectiveNames[static_cast<size_t>(operation)],
                   .begin = began,
                   .end = ended,
                   .kind = trace::Kind::kOperation,
                   .a = bytes});
    }
    Carried& sum = totals_[static_cast<size_t>(operation)];
    sum.bytes += bytes;
    sum.seconds += seconds;
  }
  void record(trace::Track* track) {  // from now on; nullptr: no longer
    const std::lock_guard lock(mutex_);
    track_ = track;
  }
  Traffic totals() const {
    const std::lock_guard lock(mutex_);
    return totals_;
  }

  // For what a communicator exchanges on its own account: while a Pause exists, operations that are issued are not to
  // be counted, whenever they end. Whoever issues one asks counts().
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
  mutable std::mutex mutex_;
  Traffic totals_{};
  trace::Track* track_ = nullptr;
  std::atomic<bool> counts_ = true;
};

}  // namespace dtrain::dist
