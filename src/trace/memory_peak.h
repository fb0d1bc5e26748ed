#pragma once

// Which operators hold the memory when most of it is held: allocations and releases played again up
// to the peak. Pure.

#include <cstdint>
#include <span>
#include <vector>

#include "trace/recorder.h"

namespace dtrain::trace {

struct MemoryChange {
  Time time = 0;
  uint64_t address = 0;
  int64_t bytes = 0;   // negative: the memory at the address is released
  int32_t owner = -1;  // the operator that allocated it; -1: none
};

struct TimeRange {
  Time begin = 0, end = 0;
};

struct HeldBy {
  int32_t owner = -1;
  int64_t bytes = 0, tensors = 0;
};

struct MemoryPeak {
  int64_t bytes = 0;
  std::vector<HeldBy> held = {};  // the largest first; the sum is `bytes`
};

// The most that was held in any of the intervals (in order, not overlapping), with what was
// allocated before them. Of equal peaks the first.
MemoryPeak peak_within(std::span<const MemoryChange>, std::span<const TimeRange>);

}  // namespace dtrain::trace
