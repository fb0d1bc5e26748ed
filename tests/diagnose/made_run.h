#pragma once

// Runs of made measurements: equal steps of one or several ranks, which a test then disturbs.

#include <cmath>
#include <cstddef>
#include <vector>

#include "diagnose/evidence.h"

namespace dtrain::diagnose {

using monitoring::Phase;
using monitoring::StepTimes;

constexpr size_t index_of(Phase phase) { return static_cast<size_t>(phase); }

// 100 ms: 30 forward, 60 backward, 5 waiting for gradients, 3 optimizer, 2 in no phase.
inline StepTimes healthy_step() {
  StepTimes step;
  step.phases[index_of(Phase::kForward)] = 0.030;
  step.phases[index_of(Phase::kBackward)] = 0.060;
  step.phases[index_of(Phase::kAllReduceWait)] = 0.001;
  step.phases[index_of(Phase::kOptimizer)] = 0.003;
  step.wall = step.in_phases() + 0.002;
  return step;
}

// `steps` steps with a little noise that has no period.
inline RunEvidence healthy_run(size_t ranks = 1, size_t steps = 100) {
  RunEvidence run;
  run.hosts.push_back({.name = "host", .cores = 2, .others_cpu = 0, .steal = 0});
  run.network = {.latency = 20e-6, .seconds_per_byte = 1e-10, .messages = 3, .bytes = 4e6};
  run.settings = {.batch_size = 32, .steps_per_epoch = 100};
  for (size_t rank = 0; rank < ranks; ++rank) {
    RankEvidence evidence;
    for (size_t i = 0; i < steps; ++i) {
      StepTimes step = healthy_step();
      const double noise = 0.001 * std::sin(static_cast<double>(i * i + 7 * rank));
      step.phases[index_of(Phase::kForward)] += noise;
      step.wall += noise;
      evidence.steps.push_back(step);
    }
    evidence.loader = {.threads = 1, .samples = 32, .read = 0.001, .decode = 0, .augment = 0.02};
    evidence.cores = {.cores = 1, .cpu = 0.095, .side_cpu = 0.005, .run_delay = 0.0005, .throttled = 0};
    evidence.memory_growth = 0;
    run.ranks.push_back(evidence);
  }
  return run;
}

// Makes a phase of a rank longer in every step; the others wait for it.
inline void lengthen(RunEvidence& run, size_t rank, Phase phase, double seconds) {
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    for (StepTimes& step : run.ranks[r].steps) {
      step.phases[index_of(r == rank ? phase : Phase::kAllReduceWait)] += seconds;
      step.wall += seconds;
    }
  }
}

}  // namespace dtrain::diagnose
