#pragma once

// Learning rate as a pure function of the optimizer step. Steps are 0-based and count skipped ones too.

#include <cstdint>

#include "config/config.h"

namespace dtrain::train {

// Multiply the base rate by the returned factor. Warm-up: (step + 1) / warmup_steps while step < warmup_steps.
double learning_rate(const config::Schedule&, double base_lr, int64_t step, int64_t total_steps, int64_t steps_per_epoch);

}  // namespace dtrain::train
