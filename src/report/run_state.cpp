#include "report/run_state.h"

#include <system_error>

namespace dtrain::report {

namespace fs = std::filesystem;

namespace {

// Where the last line that begins with `begin` is; npos if there is none.
size_t find_last_line(std::string_view text, std::string_view begin) {
  size_t at = text.rfind(begin);
  while (at != std::string_view::npos && at > 0 && text[at - 1] != '\n')
    at = text.rfind(begin, at - 1);
  return at;
}

}  // namespace

RunState state_of(bool locked, std::string_view last_state, std::string_view reason, int64_t step,
                  int64_t planned) {
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
  constexpr std::string_view kStart =
      "dtrain ";  // the version, with which the banner of each process begins
  const size_t at = find_last_line(log_tail, kBegin), start = find_last_line(log_tail, kStart);
  if (at == std::string_view::npos || (start != std::string_view::npos && start > at)) return "";
  const std::string_view line =
      log_tail.substr(at + kBegin.size(), log_tail.find('\n', at) - at - kBegin.size());
  return std::string(line.substr(0, line.find(" | ")));
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
