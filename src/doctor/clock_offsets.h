#pragma once

// How far the ranks' clocks (date and time) are apart. Collective, about a tenth of a second. Thread-safety: none.

#include <span>
#include <vector>

#include "core/clock.h"
#include "dist/communicator.h"

namespace dtrain::doctor {

struct ClockOffset {
  double seconds = 0;  // ahead of rank 0's clock; negative: behind
  double spread = 0;   // of the trials: what the measurement cannot tell apart
};

// Each trial is one barrier, after which every rank notes its time: they leave it within the time of a message, or
// later where a rank has to wait for a core. By rank, on every rank.
std::vector<ClockOffset> clock_offsets(dist::Communicator& host, const Clock& clock = real_clock());

// From the differences to rank 0 in each trial. Pure.
ClockOffset offset_of(std::span<const double> differences);

}  // namespace dtrain::doctor
