#pragma once

#include "monitoring/step_stats.h"

namespace dtrain::monitoring::testing {

// The step of the documented example of a step line.
inline StepStats sample_step() {
  StepStats s;
  s.step = 120;
  s.steps_per_epoch = 100;
  s.epochs = 50;
  s.total_steps = 4078;
  s.samples = 128;
  s.logging = true;
  s.loss = 0.1234;
  s.learning_rate = 1e-3;
  s.grad_norm = 0.52;
  s.step_seconds = 0.25;
  s.phase_seconds = {0.0012, 0.0008, 0.0801, 0.1502, 0.0097, 0.0078, 0, 0};
  s.other_seconds = 0.0002;
  s.ranks = {{.rank = 0, .times = {.phases = {0.001, 0, 0.1, 0.14, 0, 0.008, 0, 0}, .wall = 0.25}},
             {.rank = 1,
              .times = {.phases = {0.03, 0, 0.09, 0.11, 0.01, 0.009, 0, 0},
                        .wall = 0.25,
                        .buckets = {0.01, 0.05, 0.11}},
              .values = {{measure::Quantity::kQueue, 0.5}}}};
  s.slowest = {.step = 117,
               .rank = 1,
               .times = {.phases = {0.4, 0, 0.1, 0.1, 0, 0.01, 0, 0}, .wall = 0.625}};
  s.samples_per_second = 512.3;
  s.eta_seconds = 3720;
  s.bytes_reduced = 1000;
  s.loader_bytes = 2000;
  s.loader_queue = 3;
  constexpr double kGiB = 1024 * 1024 * 1024;
  s.values = {{measure::Quantity::kMemory, 8.2 * kGiB},
              {measure::Quantity::kDeviceMemory, 24 * kGiB},
              {measure::Quantity::kMemoryAllocated, 8.2 * kGiB},
              {measure::Quantity::kMemoryReserved, 9e9},
              {measure::Quantity::kMemoryPeak, 1e10},
              {measure::Quantity::kAllocatorRetries, 2},
              {measure::Quantity::kOutOfMemory, 1},
              {measure::Quantity::kSkippedSteps, 0},
              {measure::Quantity::kLossScale, 65536}};
  s.collectives = {{"gradients", "all_reduce", 5e6, 0.5}, {"host", "all_gather", 300, 0.125}};
  s.ledger = 0xfedcba9876543210;
  return s;
}

inline EvalStats sample_eval() {
  EvalStats e;
  e.step = 120;
  e.split = "val";
  e.metrics = {{"loss", 0.0123}, {"mae", 6.21}, {"mae_yaw", 7.1}};
  e.samples = 1000;
  e.seconds = 3.2;
  e.units = {{"mae", "degrees"}, {"mae_yaw", "degrees"}};
  return e;
}

}  // namespace dtrain::monitoring::testing
