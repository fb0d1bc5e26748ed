#pragma once

// `global batch 256 = 4 ranks × 32 × accumulate 2`: what the three numbers of a config and the world size come to.
// Pure.

#include <cstdint>
#include <string>

#include "config/config.h"

namespace dtrain::train {

struct BatchArithmetic {
  int64_t global_batch = 0;  // samples per optimizer step
  int64_t batch_size = 0;    // at most, per rank and micro-step
  int64_t accumulate = 0;    // micro-steps of a full step
  int64_t ranks = 1;
  int64_t samples = 0;  // of an epoch
  int64_t steps_per_epoch = 0;
  int64_t tail = 0;  // samples of an epoch's last step if fewer than global_batch, else 0
  int64_t total_steps = 0;
};

// Throws ConfigError when both accumulate and global_batch are given and disagree.
BatchArithmetic batch_arithmetic(const config::Train&, int64_t ranks, int64_t samples);
std::string describe(const BatchArithmetic&);

}  // namespace dtrain::train
