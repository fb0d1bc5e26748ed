#pragma once

#include <filesystem>
#include <vector>

#include "tasks/task.h"

namespace dtrain::job {

// Draws RUN/loss.svg from RUN/metrics.jsonl, by step: training and validation loss, and below them the validation
// metrics in the order of `metrics` (Task::metrics()), one panel per unit. Without anything to draw, or if
// the file cannot be read, there is no plot and no error. OutputError when it cannot be written.
void write_run_plot(const std::filesystem::path& run, const std::vector<tasks::MetricSpec>& metrics);

}  // namespace dtrain::job
