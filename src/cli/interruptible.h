#pragma once

// Long work without checkpoints, such as a conversion, that a user may end early.

#include <functional>

#include "core/parallel.h"

namespace dtrain::cli {

// Runs `work` and shows the progress that it reports (core/progress_line.h). After Ctrl-C or
// SIGTERM the next report throws, so that `work` ends early and removes what it began; then the
// result is false. A second Ctrl-C ends the process at once.
bool run_interruptible(const std::function<void(const ReportProgress&)>& work);

}  // namespace dtrain::cli
