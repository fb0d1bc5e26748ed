#include "report/run_state.h"

#include <system_error>

#include "core/error.h"

namespace dtrain::report {

namespace fs = std::filesystem;

RunState state_of(bool locked, const StateRecord& last, int64_t step, int64_t planned) {
  if (locked) return RunState::kRunning;
  if (last.state == "failed") return RunState::kFailed;
  if (last.state == "finished") {
    const bool early = planned > 0 ? step < planned : last.exit_code == kExitStoppedOnRequest;
    return early ? RunState::kStopped : RunState::kFinished;
  }
  return last.state.empty() && step == 0 ? RunState::kNothing : RunState::kCrashed;
}

bool is_run_folder(const fs::path& folder) {
  std::error_code unknown;
  const auto there = [&](const char* name) {
    return fs::exists(fs::symlink_status(folder / name, unknown));
  };
  return there("metrics.jsonl") || there("environment.json") ||
         (fs::is_directory(folder / "checkpoints", unknown) &&
          (there(".lock") || there("config.yaml")));
}

}  // namespace dtrain::report
