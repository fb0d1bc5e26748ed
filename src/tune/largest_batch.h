#pragma once

// The largest batch that fits into memory, found by trying: it climbs from a first guess and then
// bisects. A line through the memory of two batches says where the limit may be, which saves most
// of the trials; a line that is wrong costs a few more of them, not the result, which always was
// tried itself. Pure but for the oracle.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::tune {

struct BatchTrial {
  int64_t batch = 0;
  bool fits = false;
  // That it used; NaN: it ran out of memory before
  double bytes = std::numeric_limits<double>::quiet_NaN();
  // What one more sample takes, if that is known
  double sample_bytes = std::numeric_limits<double>::quiet_NaN();
  std::string why = {};  // it does not fit
};

struct BatchSearch {
  int64_t start = 1;
  int64_t most = 1;              // a larger one is not needed
  double limit_bytes = 0;        // what `bytes` may be at most; 0: only the oracle knows
  double resolution = 1.0 / 16;  // ends where the limit is known to this share of the batch
};

struct LargestBatch {
  // All fit; the limit is known; the time of the oracle was over
  enum class End { kMost, kLimit, kStopped };
  int64_t batch = 0;  // 0: none fits, or none was tried
  End end = End::kStopped;
  std::vector<BatchTrial> trials = {};  // earliest first
};

// The oracle tries one batch size; nullopt: its time is over.
LargestBatch find_largest_batch(const BatchSearch&,
                                const std::function<std::optional<BatchTrial>(int64_t)>& oracle);

}  // namespace dtrain::tune
