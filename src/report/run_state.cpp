#include "report/run_state.h"

#include <system_error>

namespace dtrain::report {

namespace fs = std::filesystem;

RunState state_of(bool locked, std::string_view last_state, std::string_view reason, int64_t step, int64_t planned) {
  if (locked) return RunState::kRunning;
  if (last_state == "failed") return RunState::kFailed;
  if (last_state == "finished") {
    const bool early = planned > 0 ? step < planned : reason.starts_with("stopped on request");
    return early ? RunState::kStopped : RunState::kFinished;
  }
  return last_state.empty() && step == 0 ? RunState::kNothing : RunState::kCrashed;
}

std::string reason_in_log(std::string_view log_tail) {
  constexpr std::string_view kBegin = "finished: ";
  size_t at = log_tail.rfind(kBegin);
  while (at != std::string_view::npos && at > 0 && log_tail[at - 1] != '\n') at = log_tail.rfind(kBegin, at - 1);
  if (at == std::string_view::npos) return "";
  const std::string_view line = log_tail.substr(at + kBegin.size(), log_tail.find('\n', at) - at - kBegin.size());
  return std::string(line.substr(0, line.find(" | ")));
}

bool is_run_folder(const fs::path& folder) {
  std::error_code unknown;
  const auto there = [&](const char* name) { return fs::exists(fs::symlink_status(folder / name, unknown)); };
  return there("metrics.jsonl") || there("environment.json") ||
         (fs::is_directory(folder / "checkpoints", unknown) && (there(".lock") || there("config.yaml")));
}

}  // namespace dtrain::report
