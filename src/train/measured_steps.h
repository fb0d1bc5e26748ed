#pragma once

// What StepRunner::measure() returns: steps of a run without what surrounds them, and the memory
// that they take. Plain values of one rank, in seconds and bytes.

#include <array>
#include <cstdint>
#include <numeric>
#include <span>

#include "data/loader/loader_stats.h"
#include "measure/step_times.h"
#include "train/phase_clock.h"

namespace dtrain::train {

struct MeasuredSteps {
  int64_t steps = 0;
  int64_t samples = 0;                  // all steps, all ranks
  double seconds = 0;                   // wall-clock time of all steps together
  PhaseClock::Seconds phase_seconds{};  // totals over all steps
  measure::PaddedRows padded = {};      // this rank only, total over all steps
  data::LoaderStats loader = {};        // what it did meanwhile
  // One standard deviation, from step to step, of a step's time without waiting for other ranks.
  // Single steps that something has delayed do not count: it is made from the median of distances
  // to the median.
  double own_deviation = 0;

  // What no phase has counted: waiting for the agreement of a step boundary, and the loop itself.
  double other_seconds() const {
    return seconds - std::accumulate(phase_seconds.begin(), phase_seconds.end(), 0.0);
  }
};

// The mean step of a run whose phases have these shares of its epochs, from steps that were
// measured in each of them: as many steps as in all phases together. The loader's counters, which
// no phase changes, are sums. Pure. Requires: as many shares, whose sum is 1, and all steps have as
// many samples.
MeasuredSteps mean_over_phases(std::span<const MeasuredSteps>, std::span<const double> shares);

// What stays in memory from step to step, and what a step adds to it.
struct StepMemory {
  int64_t weights = 0;    // parameters and buffers of the network
  int64_t gradients = 0;  // their flat buckets
  int64_t moments = 0;    // the optimizer's moments or momentum
  int64_t average = 0;    // averaged weights (train.ema)
  // The most that forward and backward of a micro-batch hold beside all else
  int64_t activations = 0;
  // the micro-batch itself, as the loader gives it; data.prefetch more of them are read ahead
  int64_t batch = 0;

  int64_t total() const;
};

// Its kinds, by the names that they have in tables and files.
struct MemoryKind {
  const char* name;
  int64_t StepMemory::*bytes;
};
inline constexpr std::array<MemoryKind, 6> kMemoryKinds = {
    {{"weights", &StepMemory::weights},
     {"gradients", &StepMemory::gradients},
     {"moments", &StepMemory::moments},
     {"average", &StepMemory::average},
     {"activations", &StepMemory::activations},
     {"batch", &StepMemory::batch}}};

inline int64_t StepMemory::total() const {
  int64_t sum = 0;
  for (const MemoryKind& kind : kMemoryKinds) sum += this->*kind.bytes;
  return sum;
}

// What the phases so far and the next one need: the larger of both, with the moments of the next
// phase, which are those of all phases so far. Pure.
StepMemory larger_with_next_phase(StepMemory so_far, const StepMemory& next);

}  // namespace dtrain::train
