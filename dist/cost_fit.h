#pragma once

// What an operation of a communicator costs by its size: seconds = latency + bytes ×
// seconds_per_byte, the α-β model. Both are found from measured operations, so that the time of any
// other size can be predicted, and the causes of a slow run separated: many small messages
// (latency), large ones (bandwidth), or ranks that are late (neither of them).
//
// The fit minimizes errors in relation to the measured time, so that an operation of 4 bytes counts
// as much as one of 128 MiB, and it is robust: operations that something else has delayed do not
// move it. Pure.

#include <span>

namespace dtrain::dist {

struct CostSample {
  double bytes = 0;
  double seconds = 0;
};

struct CostFit {
  double latency = 0;           // α, in seconds
  double seconds_per_byte = 0;  // β
  // Half of the samples differ from the fit by at most this share of their time
  double residual = 0;

  double seconds(double bytes) const { return latency + bytes * seconds_per_byte; }
};

// Neither α nor β is negative. Samples without time are ignored; without any sample all is 0, and
// samples of one size alone are all latency.
CostFit fit_cost(std::span<const CostSample> samples);

}  // namespace dtrain::dist
