#pragma once

// What evaluations decide: which checkpoint is the best, whether to stop early, and the plateau schedule. Fed with
// reduced metrics, so that every rank decides the same. Pure values; the state travels in state.json.

#include <cstdint>
#include <limits>

#include "config/config.h"

namespace dtrain::train {

inline constexpr double kNoMetric = std::numeric_limits<double>::quiet_NaN();

// Whether `value` is better than `than` by more than `margin`. NaN is better than nothing, any number better than
// NaN.
bool is_better(double value, double than, bool higher_is_better, double margin = 0);

struct MetricWatch {
  double best = kNoMetric;  // the best value so far: its checkpoint is kept
  int64_t best_step = -1;
  double bar = kNoMetric;  // the last value that was better by train.min_delta
  int64_t stale = 0;       // evaluations since then

  // Returns whether `value` is the best so far.
  bool update(double value, int64_t step, bool higher_is_better, double min_delta);
  bool wants_to_stop(int64_t patience) const { return patience > 0 && stale >= patience; }
};

// torch's ReduceLROnPlateau (relative threshold, no cooldown, no smallest rate): after more than `patience`
// evaluations in a row without improvement the rate is multiplied by gamma. Under any other schedule.name it stays as
// it was made.
struct Plateau {
  double best = kNoMetric;
  int64_t bad = 0;    // evaluations in a row
  double factor = 1;  // of the learning rate

  void update(double value, bool higher_is_better, const config::Schedule&);
};

}  // namespace dtrain::train
