#include "cli/interruptible.h"

#include <atomic>

#include "core/progress_line.h"
#include "job/signals.h"

namespace dtrain::cli {
namespace {
struct Interrupted {};
}  // namespace

bool run_interruptible(const std::function<void(const ReportProgress&)>& work) {
  const std::atomic<bool>& stop = job::install_stop_signals();
  ProgressLine line(ProgressLine::Last::kAlways);
  try {
    work([&](const Progress& progress) {
      line.show(progress);
      if (stop) throw Interrupted();
    });
  } catch (const Interrupted&) {
    return false;
  }
  return true;
}

}  // namespace dtrain::cli
