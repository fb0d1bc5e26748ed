#include "train/metric_watch.h"

#include <cmath>

namespace dtrain::train {

bool is_better(double value, double than, bool higher_is_better, double margin) {
  if (std::isnan(value)) return false;
  if (std::isnan(than)) return true;
  return higher_is_better ? value > than + margin : value < than - margin;
}

bool MetricWatch::update(double value, int64_t step, bool higher_is_better, double min_delta) {
  if (is_better(value, bar, higher_is_better, min_delta)) {
    bar = value;
    stale = 0;
  } else {
    ++stale;
  }
  if (!is_better(value, best, higher_is_better)) return false;
  best = value;
  best_step = step;
  return true;
}

void Plateau::update(double value, bool higher_is_better, const config::Schedule& schedule) {
  if (schedule.name != config::ScheduleName::kPlateau) return;
  const double margin = best * schedule.threshold;  // negative metrics: as torch, which multiplies too
  if (is_better(value, best, higher_is_better, margin)) {
    best = value;
    bad = 0;
  } else if (++bad > schedule.patience) {
    factor *= schedule.gamma;
    bad = 0;
  }
}

}  // namespace dtrain::train
