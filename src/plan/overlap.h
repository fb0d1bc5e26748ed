#pragma once

// Which part of the gradients' travel a backward pass hides. The pass is played bucket by bucket: a
// bucket is ready when backward has reached its last gradient, one bucket at a time is on the wire,
// in the reducer's order, and the optimizer waits for the last of them. While the wire is busy
// backward may be slower: communication takes processors and memory bandwidth from it. Pure.

#include <algorithm>
#include <functional>
#include <span>

namespace dtrain::plan {

struct TimedBucket {
  double bytes = 0;
  double ready = 1;  // after which share of the backward pass
};

struct Overlap {
  double backward = 0;  // seconds of the pass, with what communication slows it down
  double exposed = 0;   // from its end to the arrival of the last bucket
  double wire = 0;      // seconds to send all buckets, one after the other
  // Share of the wire's time behind backward.
  double hidden() const { return wire > 0 ? std::max(0.0, 1 - exposed / wire) : 1; }
};

// `buckets` in the order of sending. `backward`: seconds of the pass alone. `contention`: share of
// its speed that it loses while the wire is busy, 0 to below 1. `seconds`: of the
// all-reduce of `bytes`.
Overlap overlap(std::span<const TimedBucket> buckets, double backward, double contention,
                const std::function<double(double bytes)>& seconds);

}  // namespace dtrain::plan
