#pragma once

// Where the time goes that ranks wait for gradients: for the rank that arrives last, for the
// latency of the messages, for their bytes, and for messages that could have traveled during
// backward. Each second is counted once. The measured waits are compared with a model of the
// network: messages that travel one after the other, each for latency + bytes × seconds per byte,
// as soon as it is ready and the one before has arrived. Pure functions.

#include <span>
#include <vector>

#include "diagnose/evidence.h"

namespace dtrain::diagnose {

// How far backward was, after which time, when how many bytes of gradients were ready: two lists of
// equal length, both ascending. The last pair is the end of backward. Between two pairs it is a
// straight line.
struct Readiness {
  std::vector<double> bytes = {}, seconds = {};

  double at(double bytes_ready) const;
  bool known() const { return !bytes.empty(); }
};

// The mean over steps and ranks of the moments at which buckets were ready (StepTimes::buckets).
Readiness readiness_of(const RunEvidence&);

// What the network still needs when backward has ended, in seconds.
struct Exposed {
  double latency = 0, transfer = 0;

  double total() const { return latency + transfer; }
};
Exposed exposed(std::span<const double> bucket_bytes, const NetworkUse&, const Readiness&);

// Means per step, in seconds.
struct Communication {
  double late = 0;      // waiting for the rank that arrives last, mean over ranks
  double latency = 0;   // latency of messages that no backward can hide
  double transfer = 0;  // transfer of bytes that no backward can hide
  double overlap = 0;   // what another size of buckets would hide behind backward
  // More than the network was measured to cost: it is busy, or its thread waits for a core
  double other = 0;
  double best_mebibytes = 0;  // the size of buckets that hides `overlap`

  // What the last rank waits for, too
  double network() const { return latency + transfer + overlap + other; }
};
Communication communication_of(const RunEvidence&);

}  // namespace dtrain::diagnose
