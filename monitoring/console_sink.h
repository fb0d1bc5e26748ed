#pragma once

// What people read while a run trains: a line for each logging step and each evaluation, or a
// progress bar. The texts are functions of the numbers, so that tests compare them without
// a terminal.

#include <cstdint>
#include <memory>
#include <string>

#include "core/clock.h"
#include "monitoring/sink.h"

namespace dtrain::monitoring {

// A sink that prints lines, or with `bar` a progress bar that is redrawn in place at most ten times
// a second of `clock`, which must outlive the sink; an evaluation has a bar of its own. For rank
// 0 only.
std::unique_ptr<Sink> make_console_sink(bool bar, const Clock& clock = real_clock());

// "epoch 1/50 | step 120/4078 | loss 0.1234 | ...". The step counts optimizer steps of the whole
// run, as checkpoint names and metrics.jsonl do.
std::string step_line(const StepStats&);

// "val epoch 1/50 | loss 0.0123 | mae 6.21 | ...". `epochs` is the number of the run's epochs; 0:
// not shown.
std::string eval_line(const EvalStats&, int64_t epochs = 0);

// "epoch 1/50 [####----] 2039/4078 ...", cut to `columns` bytes.
std::string progress_bar(const StepStats&, int columns);

}  // namespace dtrain::monitoring
