#pragma once

// A step of a run on any number of ranks, forecast from steps that were measured on one: computing
// scales with the samples, gradients travel as the fabric allows, backward hides what it can
// (overlap.h), and a step ends when its last rank is there. A pure function of measured values, for
// `dtrain plan` and whatever simulates clusters.

#include <cstdint>
#include <span>

#include "plan/all_reduce_cost.h"
#include "plan/measured_run.h"

namespace dtrain::plan {

struct Assumptions {
  Fabric fabric;
  double speed = 1;       // speed of a planned device divided by that of the measured one
  double contention = 0;  // see overlap()
  bool overlaps = true;   // false: gradients leave after backward
};

// Seconds of one optimizer step.
struct StepForecast {
  double data = 0, h2d = 0, forward = 0, backward = 0;
  double statistics = 0;  // waiting for the sums of shared batch norm
  double exposed = 0;     // waiting for gradients after backward
  // Waiting for the rank that is late by chance: the more ranks, the later the last of them
  double late = 0;
  double optimizer = 0, other = 0;
  double wire = 0;    // time of all gradients on the wire, hidden or not; not in total()
  double hidden = 1;  // share of it behind backward

  double communication() const { return statistics + exposed + late; }
  double total() const {
    return data + h2d + forward + backward + communication() + optimizer + other;
  }
};

// See Assumptions::contention.
double contention_of(Library);

// `micro_batches`: samples of the micro-steps of the rank that has the most; at least one.
StepForecast forecast_step(const MeasuredRun&, const Assumptions&, int64_t ranks,
                           std::span<const int64_t> micro_batches);

// How far the largest of `count` normally distributed values lies above their mean, in
// standard deviations.
double expected_largest(int64_t count);

}  // namespace dtrain::plan
