#include "job/inspect_run.h"

#include <algorithm>

#include "checkpoint/store.h"
#include "core/error.h"
#include "job/find_checkpoint.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;

// What the state says of its own step: "mae 2.6810"; "mae –" where nothing was measured at
// that step.
std::string measured(const train::TrainingState& state) {
  const auto found = std::find_if(state.evaluation.begin(), state.evaluation.end(),
                                  [&](const auto& metric) { return metric.first == state.metric; });
  return str(state.metric, " ", found == state.evaluation.end() ? "–" : fixed(found->second, 4));
}

std::string line(std::string label, const std::string& value) {
  label.resize(std::max<size_t>(label.size() + 1, 12), ' ');
  return label + printable(value) + "\n";
}

}  // namespace

RunReport inspect_run(const fs::path& run, bool verify, const ReportProgress& report_progress) {
  const fs::path newest = find_checkpoint({.path = run.string(), .choice = "newest"}).folder;
  const train::TrainingState last = read_state(newest);
  RunReport report{.text = line("run", run.string()), .damaged = 0, .newest = newest};
  bool best_is_there = false;
  for (const auto& [step, folder] :
       checkpoint::CheckpointStore(run / "checkpoints", real_file_system(), 1).list()) {
    std::string says;
    try {
      if (verify && folder != newest)  // the newest one is verified already
        checkpoint::CheckpointStore::verify(folder, report_progress);
      says = measured(read_state(folder));
    } catch (const CheckpointError& error) {
      ++report.damaged;
      says = error.what();
    }
    const bool best = step == last.watch.best_step;
    best_is_there = best_is_there || best;
    report.text += line(str("step ", step),
                        str(says, folder == newest ? ", newest" : "", best ? ", best" : ""));
  }
  if (last.watch.best_step >= 0 && !best_is_there) {
    report.text += str("the best, step ", last.watch.best_step, " (", last.metric, " ",
                       fixed(last.watch.best, 4),
                       "), is not there: it was removed, or not saved (checkpoint.keep_best)\n");
  }
  return report;
}

}  // namespace dtrain::job
