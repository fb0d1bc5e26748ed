#pragma once

// Which curves of a run are drawn: for the page, for two runs in one plot, and for --svg. Pure.

#include <vector>

#include "report/chart.h"
#include "report/run_records.h"

namespace dtrain::report {

// The loss, and the validation metrics by unit, in the order of the task.
std::vector<LineChart> learning_curves(const RunRecords&);
// Throughput, learning rate, norm of the gradient, loss scale: those that the run has.
std::vector<LineChart> step_curves(const RunRecords&);
// What two runs have in common: the loss, each validation metric, throughput. Solid lines in one
// color for each run.
std::vector<LineChart> common_curves(const RunRecords& first, const RunRecords& second);
// Milliseconds per step by part; without windows there is nothing in it.
AreaChart parts_over_time(const RunRecords&);

}  // namespace dtrain::report
