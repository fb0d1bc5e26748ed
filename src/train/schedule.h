#pragma once

// The learning rate as a pure function of the optimizer step. Steps are 0-based and include
// skipped ones.

#include <cstdint>
#include <string>

#include "config/config.h"

namespace dtrain::train {

// With b = base_lr, w = warmup_steps.of(T), T = total_steps (steps beyond T keep the last rate):
//   warm-up    b (s+1) / w while s < w (not for one_cycle, where w is the length of the rise)
//   constant   b
//   plateau    b (the caller multiplies by Plateau::factor of metric_watch.h)
//   step       b gamma^floor(s / (step_epochs × steps_per_epoch)), as torch's StepLR
//   cosine     from b at s = w to b × final_lr_ratio at s = T, half a cosine, as torch's
//              CosineAnnealingLR(T - w)
//   one_cycle  from b/25 at s = 0 to b at s = w - 1 to b × final_lr_ratio at s = T - 1, two half
//              cosines; w = 0 means 0.3 T; as torch's OneCycleLR(b, T, pct_start = w/T,
//              final_div_factor = 1 / (25 final_lr_ratio))
double learning_rate(const config::Schedule&, double base_lr, int64_t step, int64_t total_steps,
                     int64_t steps_per_epoch);

// A warning if the warm-up is more than a third of all steps (one_cycle: half of them, because its
// rise is a part of the cycle), with the value to set; else "".
std::string long_warm_up(const config::Schedule&, int64_t total_steps);

struct ScheduleOfRun {
  config::Schedule schedule;
  int64_t total_steps = 0;
};
// A warning if a run resumed at step `done` is in its warm-up again, because a share of more steps
// is more than it was, with the value that avoids it; else "".
std::string second_warm_up(const ScheduleOfRun& before, const ScheduleOfRun& now, int64_t done);

}  // namespace dtrain::train
