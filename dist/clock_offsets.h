#pragma once

// How far the ranks' clocks are apart, from barriers. No rank leaves a barrier before the last one
// has entered it: so the time at which one leaves is later than the time at which another enters,
// whatever their clocks say. Each trial bounds the offset from both sides, and the bounds of all
// trials together are close: about half a round trip apart, however unevenly the ranks get
// their cores.

#include <functional>
#include <span>
#include <vector>

#include "dist/communicator.h"

namespace dtrain::dist {

struct ClockOffset {
  double seconds = 0;  // ahead of rank 0's clock; negative: behind
  double error = 0;    // largest error of `seconds`: half of what the trials leave open
};

// When a rank entered and left a barrier, on its own clock, in seconds.
struct BarrierTimes {
  double entered = 0, left = 0;
};

// `now`: the clock of this rank, in seconds. By rank, on every rank. Collective, some milliseconds.
std::vector<ClockOffset> clock_offsets(Communicator& host, const std::function<double()>& now);

// From the same barriers, seen by rank 0 and by the other rank. Pure.
ClockOffset offset_of(std::span<const BarrierTimes> rank0, std::span<const BarrierTimes> other);

}  // namespace dtrain::dist
