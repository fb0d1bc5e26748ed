#include "report/run_records.h"

#include <system_error>

#include "catalog/catalog.h"
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

double RecordedEvaluation::metric(std::string_view name) const {
  for (const auto& [own, value] : metrics) {
    if (own == name) return value;
  }
  return kUnknown;
}

std::string RunRecords::setting(std::string_view key) const {
  for (const auto& [own, value] : config) {
    if (own == key) return value;
  }
  return "";
}

std::string RunRecords::task() const {
  return environment.task.empty() ? setting("task.name") : environment.task;
}

MetricKind kind_of_metric(const RunRecords& run, std::string_view name) {
  for (const MetricKind& metric : run.environment.metrics) {
    if (metric.name == name) return metric;
  }
  MetricKind kind{.name = std::string(name), .unit = "", .known = true, .higher_is_better = false};
  if (name == "loss") return kind;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name.starts_with("mae")) {
    const auto task = value_named<catalog::TaskId>(run.task());
    if (task) kind.unit = catalog::row(*task).numbers.error_unit;
    if (kind.unit.empty()) kind.unit = "absolute error";
  } else if (has("mse") || has("reconstruction")) {
    kind.unit = "squared error";
  } else if (has("accuracy") || has("top1") || has("top5") || has("f1") || has("precision") ||
             has("recall")) {
    kind.unit = "share";
    kind.higher_is_better = true;
  } else {
    kind.known = false;
  }
  return kind;
}

}  // namespace dtrain::report
