#pragma once

// Where the time of one optimizer step of one rank went. Times are in seconds; on a GPU they are
// the device's own. A step lasts from its first phase to the first phase of the next step, so that
// what follows it (report, evaluation, checkpoint) belongs to it, and what no phase covers is known
// too. They are no quantities, which are means of a window: a verdict plays the single steps of all
// ranks again. Plain values, which travel between ranks.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace dtrain::measure {

enum class Phase {
  kDataWait,
  kH2d,
  kForward,
  kBackward,
  kAllReduceWait,
  kOptimizer,
  kCheckpoint,
  kEval,
  kCount
};
inline constexpr size_t kPhases = static_cast<size_t>(Phase::kCount);
// The label values of dtrain_phase_seconds_total and the keys of metrics.jsonl.
inline constexpr std::array<const char*, kPhases> kPhaseNames = {
    "data_wait", "h2d", "forward", "backward", "allreduce_wait", "optimizer", "checkpoint", "eval"};

using PhaseSeconds = std::array<double, kPhases>;

// Padding in batches that are padded to the length of their longest sample: rows with values, and
// cells of the batches. 0 without such batches.
struct PaddedRows {
  double rows = 0, cells = 0;

  PaddedRows& operator+=(const PaddedRows& other) {
    rows += other.rows;
    cells += other.cells;
    return *this;
  }
  PaddedRows& operator/=(double parts) {
    rows /= parts;
    cells /= parts;
    return *this;
  }
};
inline PaddedRows operator*(double factor, const PaddedRows& padded) {
  return {factor * padded.rows, factor * padded.cells};
}

struct StepTimes {
  PhaseSeconds phases{};
  double wall = 0;    // seconds for the whole step
  double launch = 0;  // with a GPU: of the host, while it launched forward and backward
  // From the start of the last backward to the moments at which the first, the middle and the last
  // bucket of gradients were ready to be sent. 0: it was not sent during backward.
  std::array<double, 3> buckets{};
  PaddedRows padded{};

  double& of(Phase phase) { return phases[static_cast<size_t>(phase)]; }
  double of(Phase phase) const { return phases[static_cast<size_t>(phase)]; }
  double computing() const { return of(Phase::kForward) + of(Phase::kBackward); }
  double in_phases() const { return std::accumulate(phases.begin(), phases.end(), 0.0); }
  double other() const { return wall - in_phases(); }  // time outside all phases

  // Sums of steps, and with their number the mean step.
  StepTimes& operator+=(const StepTimes& step) {
    for (size_t phase = 0; phase < phases.size(); ++phase) phases[phase] += step.phases[phase];
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += step.buckets[i];
    wall += step.wall;
    launch += step.launch;
    padded += step.padded;
    return *this;
  }
  StepTimes& operator/=(double steps) {
    for (double& seconds : phases) seconds /= steps;
    for (double& seconds : buckets) seconds /= steps;
    wall /= steps;
    launch /= steps;
    padded /= steps;
    return *this;
  }
};

// The steps of one rank, in order.
using Steps = std::vector<StepTimes>;

// One step of all ranks, by the rank that took longest for it, without its wait for the others.
struct SlowStep {
  int64_t step = 0;
  int rank = 0;
  StepTimes times{};
};

}  // namespace dtrain::measure
