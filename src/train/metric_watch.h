#pragma once

// What evaluations decide: which checkpoint is the best, whether to stop early, and the plateau
// schedule. The values are reduced over ranks, so every rank decides the same. Pure; checkpoints
// keep the state in state.json.

#include <cstdint>
#include <limits>
#include <string>

#include "config/config.h"
#include "tasks/task.h"

namespace dtrain::train {

inline constexpr double kNoMetric = std::numeric_limits<double>::quiet_NaN();

// Whether `value` is better than `than` by more than `margin`. Any number is better than NaN; NaN
// is never better.
bool is_better(double value, double than, bool higher_is_better, double margin = 0);

struct MetricWatch {
  double best = kNoMetric;  // the best value so far: its checkpoint is kept
  int64_t best_step = -1;
  double bar = kNoMetric;  // the last value that improved by more than train.min_delta
  int64_t evaluations_without_improvement = 0;  // since then

  // Returns whether `value` is the best so far.
  bool update(double value, int64_t step, bool higher_is_better, double min_delta);
  bool wants_to_stop(int64_t patience) const {  // 0: never
    return patience > 0 && evaluations_without_improvement >= patience;
  }
};

// torch's ReduceLROnPlateau (relative threshold, no cooldown, no minimum rate): after more than
// schedule.patience evaluations in a row without improvement the factor is multiplied by
// schedule.gamma. With another schedule.name update() changes nothing.
struct Plateau {
  double best = kNoMetric;
  int64_t evaluations_without_improvement = 0;  // consecutive ones
  double factor = 1;                            // multiplies the learning rate

  void update(double value, bool higher_is_better, const config::Schedule&);
};

// The metric of this name (train.metric), or the task's primary one if `name` is empty. ConfigError
// if there is none.
tasks::MetricSpec watched_metric(const tasks::Task&, const std::string& name);

}  // namespace dtrain::train
