#pragma once

// What a run would gain if some of its time were saved: the steps that were measured, played again
// with shorter phases. In data-parallel training the gradients of a step meet when the last rank
// arrives, so time that is saved on a rank that others do not wait for gains nothing. (The idea of
// replaying measured steps: Lin et al., "Understanding Stragglers in Large Model Training Using
// What-if Analysis", OSDI 2025.) Pure functions.

#include <cstddef>
#include <functional>
#include <vector>

#include "measure/step_times.h"

namespace dtrain::diagnose {

// The steps of one rank, in order; all ranks have the same number of them.
using measure::Steps;

struct Gain {
  double ratio = 0;  // more samples per second: 0.25 is 25 % more
  // Its standard error, by a block jackknife: it counts what changes from step to step
  double error = 0;
};

// A step in the time that all ranks share: it ends when the gradients have met. What a rank does
// after that (optimizer, evaluation, checkpoint) belongs to the next one.
struct Cycle {
  double own = 0;   // what the rank did before its gradients were complete
  double wait = 0;  // for the other ranks and for the network
};
// One list per rank, with one cycle less than there are steps.
std::vector<std::vector<Cycle>> cycles_of(const std::vector<Steps>& ranks);

// Seconds of the network in each cycle: the wait of the rank that waited least, which was the last
// to arrive.
std::vector<double> network_seconds(const std::vector<std::vector<Cycle>>& cycles);

// A measured step, and the phases that it would have had. The wall time follows from them
// by itself.
using Change = std::function<void(size_t rank, size_t step, measure::StepTimes&)>;

// How the steps would have been without a cause.
struct WhatIf {
  Change change;       // applied to each step; empty: no change
  double network = 1;  // the share of its time that the network would take
  // What happens now and then by plan, such as evaluations: the error is that of its duration, not
  // of when it happens.
  measure::Phase planned = measure::Phase::kCount;
  double planned_per_step = 0;  // how often; 0: it is not known
  // Seconds of one such event where the steps have none, as it was before them, and as it would
  // have been.
  double event = 0, event_without = 0;
  double unseen = 0;  // standard error of the gain that the steps of one run do not show
};
std::vector<Steps> replayed(const std::vector<Steps>& ranks, const WhatIf&);

// The gain of the steps as they would have been over those that were measured. Zero for fewer than
// two steps.
Gain gain_of(const std::vector<Steps>& ranks, const WhatIf&);

}  // namespace dtrain::diagnose
