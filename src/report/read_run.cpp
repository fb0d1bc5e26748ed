#include "report/read_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>

#include "config/differences.h"
#include "core/error.h"
#include "os/file_lock.h"
#include "report/add_records.h"
#include "report/bounded_file.h"
#include "report/json_values.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestLine = int64_t{4} << 20;  // a confusion matrix of 100 classes has 0.1 MB
constexpr int64_t kSmallFile = int64_t{1} << 20;    // environment.json, config.yaml, state.json
constexpr size_t kMostPlaces = 4096, kMostCheckpoints = 1000;

// What `folder` is, if it is no run.
std::string what_it_is(const fs::path& folder) {
  std::error_code code;
  const fs::file_status status = fs::status(folder, code);
  if (!fs::exists(status))
    return code && code != std::errc::no_such_file_or_directory &&
                   code != std::errc::not_a_directory
               ? str("cannot be read: ", code.message())
               : "does not exist";
  if (!fs::is_directory(status)) return "is a file; name the folder of a run, such as runs/NAME";
  if (fs::exists(folder / "MANIFEST.json", code)) {
    return "is a checkpoint; name the folder of its run, two levels above";
  }
  std::vector<std::string> runs;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (is_run_folder(at->path())) runs.push_back(at->path().filename().string());
  }
  std::ranges::sort(runs);
  if (!runs.empty()) {
    return str("holds runs (", join_first(runs, 4),
               "); name one of them, or list them with `dtrain ls`");
  }
  return "is no run folder: it has neither metrics.jsonl nor environment.json nor checkpoints";
}

Json parsed(const FileText& file, const char* name, std::vector<std::string>& gaps) {
  if (!file.problem.empty()) {
    gaps.push_back(str(name, " ", file.problem));
    return Json::object();
  }
  Json json = Json::parse(file.text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  gaps.push_back(str(name, " is damaged: it is no JSON object"));
  return Json::object();
}

RecordedRank place_in(const Json& json) {
  return {.node = text_in(json, "node"),
          .device = text_in(json, "device"),
          .memory_bytes = number_in(json, "memory_bytes"),
          .cores = count_in(json, "cores"),
          .threads = count_in(json, "threads"),
          .loader_threads = count_in(json, "loader_threads")};
}

Environment environment_in(const Json& json) {
  Environment e;
  e.versions = text_in(json, "versions");
  e.config_hash = text_in(json, "config_hash");
  e.precision = text_in(json, "precision");
  e.communicator = text_in(json, "communicator");
  e.data = text_in(json, "data");
  e.resumed = text_in(json, "resumed");
  e.task = text_in(json, "task");
  e.network = text_in(json, "network");
  e.metric = text_in(json, "metric");
  e.world_size = count_in(json, "world_size");
  e.parameters = count_in(json, "parameters");
  e.global_batch = count_in(json, "global_batch");
  e.steps_per_epoch = count_in(json, "steps_per_epoch");
  e.total_steps = count_in(json, "total_steps");
  const Json& samples = object_in(json, "samples");
  e.train = count_in(samples, "train");
  e.val = count_in(samples, "val");
  e.test = count_in(samples, "test");
  for (const Json& rank : array_in(json, "ranks")) {
    if (rank.is_object() && e.ranks.size() < kMostPlaces) e.ranks.push_back(place_in(rank));
  }
  for (const Json& metric : array_in(json, "metrics")) {
    if (!metric.is_object() || e.metrics.size() > 64) continue;
    const auto higher = metric.find("higher_is_better");
    const bool known = higher != metric.end() && higher->is_boolean();
    e.metrics.push_back({.name = text_in(metric, "name"),
                         .unit = text_in(metric, "unit"),
                         .known = known,
                         .higher_is_better = known && higher->get<bool>()});
  }
  return e;
}

std::optional<int64_t> step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  return name.starts_with(kPrefix) ? parse_number<int64_t>(name.substr(kPrefix.size()))
                                   : std::nullopt;
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    std::error_code unknown;
    const auto size = at->file_size(unknown);
    if (!unknown) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

std::vector<CheckpointFolder> checkpoints_in(const fs::path& folder) {
  std::vector<CheckpointFolder> found;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    const std::optional<int64_t> step = step_of(name);
    if (step) found.push_back({.name = name, .step = *step});
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return a.step > b.step; });
  if (found.size() > kMostCheckpoints) found.resize(kMostCheckpoints);
  for (CheckpointFolder& checkpoint : found) checkpoint.bytes = bytes_in(folder / checkpoint.name);
  return found;
}

// The best value that training knew when it saved last.
void read_best(RunRecords& run) {
  if (run.checkpoints.empty()) return;
  const FileText file = read_small(
      run.folder / "checkpoints" / run.checkpoints.front().name / "state.json", kSmallFile);
  const Json state = parsed(file, "state.json of the newest checkpoint", run.gaps);
  run.best_metric = text_in(state, "metric");
  run.best_value = number_in(state, "best");
  run.best_step = count_in(state, "best_step", -1);
}

// Where no checkpoint says it: of the evaluations.
void find_best(RunRecords& run) {
  if (run.best_metric.empty()) run.best_metric = run.environment.metric;
  if (run.best_metric.empty()) run.best_metric = run.setting("train.metric");
  const auto is_val = [](const RecordedEvaluation& e) { return e.split == "val"; };
  const auto last = std::find_if(run.evaluations.rbegin(), run.evaluations.rend(), is_val);
  if (last == run.evaluations.rend()) return;
  // The first one beside the loss is the primary metric of every task
  if (run.best_metric.empty()) {
    for (const auto& [name, value] : last->metrics) {
      if (run.best_metric.empty() && name != "loss") run.best_metric = name;
    }
  }
  const MetricKind kind = kind_of_metric(run, run.best_metric);
  if (!kind.known) return;
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    const double value = evaluation.metric(run.best_metric);
    if (!is_val(evaluation) || !std::isfinite(value)) continue;
    const bool better = kind.higher_is_better ? value > run.best_value : value < run.best_value;
    if (!std::isnan(run.best_value) && !better) continue;
    run.best_value = value;
    run.best_step = evaluation.step;
  }
}

}  // namespace

RunRecords read_run(const fs::path& given, bool own, int64_t most_bytes) {
  const fs::path folder = given.has_filename() ? given : given.parent_path();
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown) || !is_run_folder(folder) ||
      fs::exists(folder / "MANIFEST.json", unknown)) {
    throw DataError(str(given.string(), " ", what_it_is(folder)));
  }
  RunRecords run;
  run.folder = folder;
  run.name = fs::absolute(folder, unknown).lexically_normal().filename().string();
  run.environment = environment_in(
      parsed(read_small(folder / "environment.json", kSmallFile), "environment.json", run.gaps));
  if (const FileText yaml = read_small(folder / "config.yaml", kSmallFile); !yaml.problem.empty()) {
    run.gaps.push_back("config.yaml " + yaml.problem);
  } else {
    run.config = config::values_in(yaml.text);
    if (run.config.empty()) run.gaps.push_back("config.yaml is damaged: it has no settings");
  }
  const bool locked = !own && is_locked(folder / ".lock");
  RecordAdder adder(run);
  const std::string problem = read_lines(
      folder / "metrics.jsonl", most_bytes, kLongestLine,
      [&](std::string_view line, bool whole) { adder.line(line, whole); },
      [&] { adder.skipped(); });
  if (!problem.empty()) run.gaps.push_back("metrics.jsonl " + problem);
  adder.finish(/*growing=*/locked);
  run.checkpoints = checkpoints_in(folder / "checkpoints");
  read_best(run);
  find_best(run);
  run.reason = adder.last_state().reason;
  run.state = state_of(locked, adder.last_state(), run.last_step, run.environment.total_steps);
  if (run.steps.empty() && problem.empty())
    run.gaps.push_back("metrics.jsonl has no step records yet");
  return run;
}

}  // namespace dtrain::report
