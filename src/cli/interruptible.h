#pragma once

#include <functional>

#include "core/parallel.h"

namespace dtrain::cli {

// Long work without checkpoints, such as a conversion: shows the progress that `work` reports (progress_line.h). Once
// Ctrl-C or SIGTERM came, the next report throws, so that `work` ends early and clears up; then the result is false.
// A second Ctrl-C ends the process at once.
bool run_interruptible(const std::function<void(const ReportProgress&)>& work);

}  // namespace dtrain::cli
