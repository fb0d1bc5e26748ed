#include "job/find_checkpoint.h"

#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/error.h"
#include "core/log.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;

checkpoint::CheckpointStore store_of(const fs::path& run) {
  return {run / "checkpoints", real_file_system(), 1};
}

std::string steps_of(const fs::path& run) {
  std::vector<std::string> steps;
  for (const auto& [step, folder] : store_of(run).list()) steps.push_back(str(step));
  return steps.empty() ? "it has no checkpoints" : "it has those of the steps " + join(steps, ", ");
}

FoundCheckpoint best_of(const fs::path& run, const fs::path& newest) {
  const train::TrainingState state = read_state(newest);
  const int64_t step = state.watch.best_step;
  if (step < 0) {
    throw CheckpointError(str(
        run.string(), " has no best checkpoint: by its newest one, ", newest.filename().string(),
        ", no evaluation has chosen one. --checkpoint newest takes that one"));
  }
  const std::string value = str(state.metric, " ", fixed(state.watch.best, 4));
  const fs::path folder = store_of(run).folder_of(step);
  if (!fs::is_directory(folder)) {
    throw CheckpointError(str(
        "the best checkpoint of ", run.string(), ", of step ", step, " (", value,
        "), is not there: it was removed, or not saved (checkpoint.keep_best); ", steps_of(run)));
  }
  return {folder, "best: " + value};
}

FoundCheckpoint at_step(const fs::path& run, int64_t step) {
  const fs::path folder = store_of(run).folder_of(step);
  if (!fs::is_directory(folder)) {
    throw CheckpointError(
        str(run.string(), " has no checkpoint of step ", step, "; ", steps_of(run)));
  }
  return {folder, str("step ", step)};
}

}  // namespace

bool is_checkpoint(const fs::path& folder) {
  std::error_code unknown;
  return fs::exists(folder / checkpoint::kManifestName, unknown);
}

std::optional<fs::path> newest_checkpoint(const fs::path& run, bool* damaged) {
  std::error_code unknown;
  if (!fs::is_directory(run / "checkpoints", unknown)) return std::nullopt;
  std::vector<checkpoint::Skipped> skipped;
  const auto found = store_of(run).newest(&skipped);
  for (const auto& [folder, reason] : skipped)
    log::warning(str("skipped checkpoint ", folder.string(), ": ", reason));
  if (damaged) *damaged = !skipped.empty();
  return found;
}

train::TrainingState read_state(const fs::path& checkpoint) {
  return train::from_json(checkpoint::CheckpointStore::read_state(checkpoint));
}

FoundCheckpoint find_checkpoint(const CheckpointName& name) {
  const fs::path path = name.path;
  const std::optional<int64_t> step = parse_number<int64_t>(name.choice);
  const bool newest = name.choice.empty() || name.choice == "newest", best = name.choice == "best";
  if (!newest && !best && (!step || *step < 0)) {
    throw UsageError(
        str("--checkpoint '", name.choice, "' is neither best, newest, nor a step such as 1200"));
  }
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) {
    throw CheckpointError(
        str(name.path, fs::exists(path, unknown)
                           ? ": is a file; name the folder of the checkpoint or of the run"
                           : ": there is no such folder"));
  }
  if (is_checkpoint(path)) {
    if (!name.choice.empty()) {
      throw UsageError(str("--checkpoint ", name.choice,
                           " chooses among the checkpoints of a run, and ", name.path,
                           " is one of them: leave it out, or name the folder of the run"));
    }
    return {path, ""};
  }
  if (step) return at_step(path, *step);
  const std::optional<fs::path> found = newest_checkpoint(path);
  if (!found) {
    throw CheckpointError(
        str(name.path, ": neither a checkpoint nor a run folder with one that verifies"));
  }
  return best ? best_of(path, *found) : FoundCheckpoint{*found, "newest"};
}

}  // namespace dtrain::job
