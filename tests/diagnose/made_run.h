#pragma once

// Runs of made measurements: the steps of ranks that meet at their gradients, with noise, and a
// fault that a test or a benchmark plants. The clockwork here is not that of the diagnosis: a run
// is played with the fault and, with the same noise, without it, and the difference is the gain
// that the diagnosis should have predicted.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "diagnose/evidence.h"

namespace dtrain::diagnose {

using measure::Phase;
using measure::StepTimes;

constexpr size_t index_of(Phase phase) { return static_cast<size_t>(phase); }

using Random = std::mt19937_64;

struct MadeRun {
  size_t ranks = 2, steps = 100;
  double noise = 0.01;  // standard deviation of each phase, as a share of it
  // What a rank does in a step, in seconds: 100 ms in all.
  double data_wait = 0, h2d = 0.002, forward = 0.030, backward = 0.060, network = 0.002,
         optimizer = 0.002, other = 0.004;
  // Makes a rank slow in a step: lengthens its phases, or its time in no phase. May draw from
  // the generator.
  std::function<void(size_t rank, size_t step, Random&, StepTimes&)> slow = {};
};

// The steps of all ranks: each rank works, the gradients meet when the last one has come, then the
// optimizer runs.
inline std::vector<Steps> play(const MadeRun& made, uint64_t seed) {
  std::vector<Steps> ranks(made.ranks);
  // By which each rank has begun the step before the slowest
  std::vector<double> ahead(made.ranks);
  for (size_t i = 0; i < made.steps; ++i) {
    std::vector<double> arrives;
    for (size_t rank = 0; rank < made.ranks; ++rank) {
      Random noise(seed * 1000003 + i * 1009 + rank), own(seed * 7919 + i * 104729 + rank);
      std::normal_distribution<double> normal(1, made.noise);
      StepTimes step;
      const auto set = [&](Phase phase, double seconds) {
        step.phases[index_of(phase)] = seconds * normal(noise);
      };
      set(Phase::kDataWait, made.data_wait);
      set(Phase::kH2d, made.h2d);
      set(Phase::kForward, made.forward);
      set(Phase::kBackward, made.backward);
      set(Phase::kOptimizer, made.optimizer);
      step.wall = made.other * normal(noise);  // what no phase has, until the end
      if (made.slow) made.slow(rank, i, own, step);
      arrives.push_back(step.of(Phase::kDataWait) + step.of(Phase::kH2d) +
                        step.of(Phase::kForward) + step.of(Phase::kBackward) - ahead[rank]);
      ranks[rank].push_back(step);
    }
    const double meeting =
        *std::max_element(arrives.begin(), arrives.end()) + (made.ranks > 1 ? made.network : 0);
    std::vector<double> ends;
    for (size_t rank = 0; rank < made.ranks; ++rank) {
      StepTimes& step = ranks[rank].back();
      step.phases[index_of(Phase::kAllReduceWait)] = meeting - arrives[rank];
      step.wall += step.in_phases();
      ends.push_back(meeting + step.of(Phase::kOptimizer) + step.of(Phase::kEval) +
                     step.of(Phase::kCheckpoint) + step.other());
    }
    const double last = *std::max_element(ends.begin(), ends.end());
    for (size_t rank = 0; rank < made.ranks; ++rank) ahead[rank] = last - ends[rank];
  }
  return ranks;
}

inline double seconds_of(const std::vector<Steps>& ranks) {
  double most = 0;
  for (const Steps& rank : ranks) {
    double sum = 0;
    for (const StepTimes& step : rank) sum += step.wall;
    most = std::max(most, sum);
  }
  return most;
}

// What the machines of such a run measure while nothing is wrong with them.
inline RunEvidence evidence_of(const MadeRun& made, uint64_t seed = 1) {
  RunEvidence run;
  run.hosts.push_back({.name = "host",
                       .values = {{Quantity::kHostCores, 4},
                                  {Quantity::kHostBusy, 0.19},
                                  {Quantity::kHostIdle, 0.1},
                                  {Quantity::kHostIoWait, 0},
                                  {Quantity::kHostSteal, 0},
                                  {Quantity::kSwappedIn, 0},
                                  {Quantity::kReadAgain, 0},
                                  {Quantity::kFreeMemory, 20e9}},
                       .job_cores = 4,
                       .others_cpu = 0.002});
  run.network = {.latency = 20e-6, .seconds_per_byte = 1e-10, .messages = 3, .bytes = 4e6};
  run.settings.batch_size = 32;
  run.settings.steps_per_epoch = 100;
  run.settings.steps_left = 10000;
  for (Steps& steps : play(made, seed)) {
    RankEvidence evidence;
    evidence.steps = std::move(steps);
    evidence.values = {{Quantity::kSampleBytes, 32e4},    {Quantity::kReadSeconds, 0.001},
                       {Quantity::kAugmentSeconds, 0.02}, {Quantity::kCores, 2},
                       {Quantity::kCpu, 0.095},           {Quantity::kComputeCpu, 0.090},
                       {Quantity::kRunDelay, 0.0005},     {Quantity::kThrottled, 0},
                       {Quantity::kDiskBytes, 0},         {Quantity::kResident, 1e9}};
    for (int i = 1; i <= 10; ++i) evidence.memory.push_back({10.0 * i, 1e9});
    run.ranks.push_back(std::move(evidence));
  }
  return run;
}

inline RunEvidence healthy_run(size_t ranks = 1, size_t steps = 100) {
  return evidence_of({.ranks = ranks, .steps = steps, .h2d = 0});
}

// The CPU time of a rank's threads that do not compute.
inline void set_side_cpu(RankEvidence& rank, double seconds) {
  rank.values[Quantity::kComputeCpu] = rank.values[Quantity::kCpu] - seconds;
}

// The host launches forward and backward for this long in each step.
inline void set_launch(RankEvidence& rank, double seconds) {
  for (StepTimes& step : rank.steps) step.launch = seconds;
}

inline void set_loss_scale(RunEvidence& run, double now, double skipped) {
  for (RankEvidence& rank : run.ranks)
    rank.values.set({{Quantity::kLossScale, now}, {Quantity::kSkippedSteps, skipped}});
}

// Makes a phase of a rank longer in every step of a run that was made; the others wait for it.
inline void lengthen(RunEvidence& run, size_t rank, Phase phase, double seconds) {
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    for (StepTimes& step : run.ranks[r].steps) {
      step.phases[index_of(r == rank ? phase : Phase::kAllReduceWait)] += seconds;
      step.wall += seconds;
    }
  }
}

}  // namespace dtrain::diagnose
