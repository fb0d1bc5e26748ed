#pragma once

// The time of one machine's clock on that of rank 0's machine. Clocks run at slightly different
// speeds, so the offset is measured before and after, and what lies between is interpolated. Pure.

#include <cmath>

#include "trace/recorder.h"

namespace dtrain::trace {

struct ClockMap {
  Time before = 0, after = 0;                  // when the offsets were measured, on the own clock
  double offset_before = 0, offset_after = 0;  // seconds that the own clock is ahead

  Time common(Time own) const {
    const double share =
        after > before ? static_cast<double>(own - before) / static_cast<double>(after - before)
                       : 0.0;
    const double offset = offset_before + (offset_after - offset_before) * share;
    return own - static_cast<Time>(std::llround(offset * 1e9));
  }
};

}  // namespace dtrain::trace
