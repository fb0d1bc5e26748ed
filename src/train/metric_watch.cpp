#include "train/metric_watch.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::train {

bool is_better(double value, double than, bool higher_is_better, double margin) {
  if (std::isnan(value)) return false;
  if (std::isnan(than)) return true;
  return higher_is_better ? value > than + margin : value < than - margin;
}

bool MetricWatch::update(double value, int64_t step, bool higher_is_better, double min_delta) {
  if (is_better(value, bar, higher_is_better, min_delta)) {
    bar = value;
    evaluations_without_improvement = 0;
  } else {
    ++evaluations_without_improvement;
  }
  if (!is_better(value, best, higher_is_better)) return false;
  best = value;
  best_step = step;
  return true;
}

void Plateau::update(double value, bool higher_is_better, const config::Schedule& schedule) {
  if (schedule.name != config::ScheduleName::kPlateau) return;
  const double margin = best * schedule.threshold;  // torch multiplies negative metrics too
  if (is_better(value, best, higher_is_better, margin)) {
    best = value;
    evaluations_without_improvement = 0;
  } else if (++evaluations_without_improvement > schedule.patience) {
    factor *= schedule.gamma;
    evaluations_without_improvement = 0;
  }
}

tasks::MetricSpec watched_metric(const tasks::Task& task, const std::string& name) {
  const std::vector<tasks::MetricSpec> metrics = task.metrics();
  std::vector<std::string> names;
  for (const tasks::MetricSpec& metric : metrics) {
    if (name.empty() ? metric.primary : metric.name == name) return metric;
    names.push_back(metric.name);
  }
  throw ConfigError(
      str("train.metric: '", name, "' is none of this task's metrics: ", join(names, ", ")));
}

}  // namespace dtrain::train
