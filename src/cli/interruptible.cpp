#include "cli/interruptible.h"

#include "cli/progress_line.h"
#include "cli/signals.h"

namespace dtrain::cli {
namespace {
struct Interrupted {};
}  // namespace

bool run_interruptible(const std::function<void(const ReportProgress&)>& work) {
  const std::atomic<bool>& stop = install_stop_signals();
  ProgressLine line;
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
