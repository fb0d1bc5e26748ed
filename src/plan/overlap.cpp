#include "plan/overlap.h"

#include "core/check.h"

namespace dtrain::plan {
namespace {

// A backward pass beside one wire.
class Pass {
 public:
  explicit Pass(double contention) : slowed_(1 - contention) {}

  // Until backward has done `work` seconds of its own.
  void compute_until(double work) {
    if (done_ >= work) return;
    if (wire_free_ > now_) {
      const double until_free = (wire_free_ - now_) * slowed_;
      const double part = std::min(work - done_, until_free);
      done_ += part;
      now_ += part / slowed_;
    }
    if (done_ >= work) return;
    now_ = std::max(now_, wire_free_);
    now_ += work - done_;
    done_ = work;
  }

  void send(double seconds) { wire_free_ = std::max(now_, wire_free_) + seconds; }

  double now() const { return now_; }
  double wire_free() const { return wire_free_; }

 private:
  const double slowed_;
  double now_ = 0, done_ = 0, wire_free_ = 0;
};

}  // namespace

Overlap overlap(std::span<const TimedBucket> buckets, double backward, double contention,
                const std::function<double(double bytes)>& seconds) {
  DTRAIN_CHECK(contention >= 0 && contention < 1, "contention ", contention);
  Pass pass(contention);
  Overlap result;
  for (const TimedBucket& bucket : buckets) {
    pass.compute_until(std::clamp(bucket.ready, 0.0, 1.0) * backward);
    const double travel = seconds(bucket.bytes);
    result.wire += travel;
    pass.send(travel);
  }
  pass.compute_until(backward);
  result.backward = pass.now();
  result.exposed = std::max(0.0, pass.wire_free() - pass.now());
  return result;
}

}  // namespace dtrain::plan
