#include "report/run_summary.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "config/differences.h"
#include "core/error.h"
#include "core/parallel.h"
#include "os/file_lock.h"
#include "report/bounded_file.h"
#include "report/json_values.h"
#include "text/number_text.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;

// Of metrics.jsonl. A step record has about 1.5 KB for each of its ranks, of which it has up to 64:
// the second tail is long enough for kSpeeds of them with 10 ranks, the third for all.
constexpr int64_t kShortTail = 16 << 10, kLongTail = 256 << 10, kLongestTail = 2 << 20;
constexpr int64_t kSmallFile = 1 << 20;
constexpr size_t kWidestCell = 48;  // a run with a longer name does not push the others' columns
constexpr size_t kSpeeds = 16;      // step records whose median is the speed

FileText counted(FileText file, RunSummary& run) {
  run.bytes_read += static_cast<int64_t>(file.text.size());
  return file;
}

Json json_of(const FileText& file) {
  Json json = Json::parse(file.text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

// What the last records say.
struct Tail {
  bool any = false;
  int64_t step = 0, epoch = -1;
  double time = kUnknown;
  StateRecord state;
  std::vector<double> speeds;
  std::vector<double> values;  // the metric's values, last first
};

Tail tail_of(std::string_view text, bool from_start, const std::string& metric) {
  Tail tail;
  if (!from_start) text.remove_prefix(std::min(text.size(), text.find('\n')));
  text = text.substr(0, text.rfind('\n') + 1);  // a last line that is cut, or still being written
  bool has_values = metric.empty();
  while (!text.empty() &&
         (tail.speeds.size() < kSpeeds || tail.state.state.empty() || !has_values)) {
    text.remove_suffix(1);
    const size_t newline = text.rfind('\n');
    const std::string_view line = text.substr(newline == std::string_view::npos ? 0 : newline + 1);
    text.remove_suffix(line.size());
    if (tail.speeds.size() == kSpeeds && line.starts_with("{\"kind\":\"step\""))
      continue;  // not worth the parsing
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const std::string kind = text_in(json, "kind");
    tail.any = true;
    tail.step = std::max(tail.step, count_in(json, "step"));
    if (std::isnan(tail.time)) tail.time = number_in(json, "time");
    if (kind == "state" && tail.state.state.empty()) tail.state = state_in(json);
    if (kind == "step") {
      if (tail.epoch < 0) tail.epoch = count_in(json, "epoch", -1);
      const double speed = number_in(json, "samples_per_second");
      if (std::isfinite(speed) && tail.speeds.size() < kSpeeds) tail.speeds.push_back(speed);
    }
    if (kind == "eval" && text_in(json, "split") == "val") {
      tail.values.push_back(number_in(object_in(json, "metrics"), metric));
      has_values = true;
    }
  }
  return tail;
}

double median(std::vector<double> values) {
  if (values.empty()) return kUnknown;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double write_time(const fs::path& path) {
  std::error_code code;
  const auto time = fs::last_write_time(path, code);
  if (code) return kUnknown;
  return std::chrono::duration<double>(std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

// The settings that the table shows: environment.json says them, and in older runs config.yaml.
void read_settings(RunSummary& run, RunRecords& known) {
  const FileText file = counted(read_small(run.folder / "environment.json", kSmallFile), run);
  const Json environment = json_of(file);
  run.task = text_in(environment, "task");
  run.network = text_in(environment, "network");
  run.metric = text_in(environment, "metric");
  run.total_steps = count_in(environment, "total_steps");
  known.environment.steps_per_epoch = count_in(environment, "steps_per_epoch");
  if (run.task.empty()) {
    known.config =
        config::values_in(counted(read_small(run.folder / "config.yaml", kSmallFile), run).text);
    run.task = known.setting("task.name");
    run.network = known.setting("model.name");
    run.metric = known.setting("train.metric");
    run.planned_epochs = parse_number<int64_t>(known.setting("train.epochs")).value_or(0);
    if (known.config.empty()) run.problem = "neither environment.json nor config.yaml can be read";
  } else if (known.environment.steps_per_epoch > 0) {
    const int64_t per_epoch = known.environment.steps_per_epoch;
    run.planned_epochs = run.total_steps / per_epoch + (run.total_steps % per_epoch > 0);
  }
  known.environment.task = run.task;
}

// state.json of the newest checkpoint: training wrote there what it took for the best.
void read_best(RunSummary& run) {
  std::error_code code;
  std::pair<int64_t, fs::path> newest{-1, {}};
  for (fs::directory_iterator at(run.folder / "checkpoints", code), end; !code && at != end;
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("step_")) continue;
    const auto step = parse_number<int64_t>(name.substr(5));
    if (step && *step > newest.first) newest = {*step, at->path()};
  }
  if (newest.first < 0) return;
  const Json state = json_of(counted(read_small(newest.second / "state.json", kSmallFile), run));
  if (run.metric.empty()) run.metric = text_in(state, "metric");
  if (text_in(state, "metric") == run.metric) run.best = number_in(state, "best");
}

void take_better(RunSummary& run, const Tail& tail, const MetricKind& kind) {
  for (const double value : tail.values) {
    if (!kind.known || !std::isfinite(value)) continue;
    const bool better = kind.higher_is_better ? value > run.best : value < run.best;
    if (std::isnan(run.best) || better) run.best = value;
  }
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

TextRow row_of(const RunSummary& run, double now) {
  const std::string epochs =
      run.planned_epochs > 0 ? str(run.epochs, "/", run.planned_epochs) : "-";
  return {run.name,
          run.problem.empty() ? std::string(name_of(run.state)) : "damaged",
          or_dash(run.task),
          epochs,
          std::isnan(run.best) ? "-" : str(run.metric, " ", fixed(run.best, 4)),
          std::isnan(run.samples_per_second) ? "-" : fixed(run.samples_per_second, 1),
          std::isnan(run.last_time) ? "-" : human_duration(std::max(0.0, now - run.last_time)),
          run.problem};
}

}  // namespace

RunSummary summarize(const fs::path& folder) {
  RunSummary run;
  run.folder = folder;
  run.name = folder.filename().string();
  RunRecords known;  // for the kind of the metric
  read_settings(run, known);
  read_best(run);
  const fs::path file = folder / "metrics.jsonl";
  FileText text;
  Tail tail;
  const auto read = [&](int64_t most) {
    text = counted(read_tail(file, most), run);
    tail = tail_of(text.text, text.size <= most, run.metric);
    return text.size > most;
  };
  bool has_more = read(kShortTail);
  if (has_more &&
      (tail.speeds.size() < kSpeeds || tail.state.state.empty() || tail.values.empty())) {
    has_more = read(kLongTail);
  }
  if (has_more && tail.speeds.size() < kSpeeds) read(kLongestTail);
  if (!text.problem.empty() && !text.missing()) run.problem = "metrics.jsonl " + text.problem;
  if (text.size > 0 && !tail.any && run.problem.empty())
    run.problem = "metrics.jsonl ends with lines that are no records";
  take_better(run, tail, kind_of_metric(known, run.metric));
  run.step = tail.step;
  run.samples_per_second = median(tail.speeds);
  run.last_time = std::isnan(tail.time) ? write_time(folder) : tail.time;
  const bool locked = is_locked(folder / ".lock");
  run.state = state_of(locked, tail.state, run.step, run.total_steps);
  const int64_t per_epoch = known.environment.steps_per_epoch;
  run.epochs = per_epoch > 0 ? run.step / per_epoch +
                                   (run.step >= run.total_steps && run.step % per_epoch > 0)
               : run.state == RunState::kFinished ? run.planned_epochs
               : tail.epoch > 0                   ? tail.epoch
                                                  : 0;
  return run;
}

std::vector<RunSummary> list_runs(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) {
    throw DataError(
        str(folder.string(),
            fs::exists(folder, code)
                ? " is a file; name the folder that holds the runs"
                : " does not exist: no run was started here, or --run.folder named another one"));
  }
  std::vector<fs::path> folders;
  if (is_run_folder(folder)) {
    folders.push_back(folder.has_filename() ? folder : folder.parent_path());
  } else {
    for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
      std::error_code unknown;
      if (at->is_directory(unknown) && is_run_folder(at->path())) folders.push_back(at->path());
    }
    if (code) throw DataError(str("cannot list ", folder.string(), ": ", code.message()));
  }
  if (folders.empty()) throw DataError(str(folder.string(), " has no runs in it"));
  std::vector<RunSummary> runs(folders.size());
  parallel_for(static_cast<int64_t>(folders.size()), 0, [&](int64_t i) {
    runs[static_cast<size_t>(i)] = summarize(folders[static_cast<size_t>(i)]);
  });
  std::sort(runs.begin(), runs.end(), [](const RunSummary& a, const RunSummary& b) {
    const double of_a = std::isnan(a.last_time) ? 0 : a.last_time,
                 of_b = std::isnan(b.last_time) ? 0 : b.last_time;
    return of_a != of_b ? of_a > of_b : a.name < b.name;
  });
  return runs;
}

std::string runs_table(const std::vector<RunSummary>& runs, double now) {
  std::vector<TextRow> rows;
  for (const RunSummary& run : runs) rows.push_back(row_of(run, now));
  TextRow header = {"run", "state", "task", "epochs", "best", "samples/s", "age", ""};
  const bool any_problem =
      std::any_of(runs.begin(), runs.end(), [](const auto& run) { return !run.problem.empty(); });
  if (any_problem) header.back() = "problem";
  return text_table(header, rows,
                    {Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kLeft,
                     Align::kRight, Align::kRight, Align::kLeft},
                    kWidestCell);
}

std::string runs_json(const std::vector<RunSummary>& runs) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  Json all = Json::array();
  for (const RunSummary& run : runs) {
    all.push_back({{"name", run.name},
                   {"folder", run.folder.string()},
                   {"state", run.problem.empty() ? std::string(name_of(run.state)) : "damaged"},
                   {"problem", run.problem},
                   {"task", run.task},
                   {"network", run.network},
                   {"step", run.step},
                   {"total_steps", run.total_steps},
                   {"epochs", run.epochs},
                   {"planned_epochs", run.planned_epochs},
                   {"metric", run.metric},
                   {"best", number(run.best)},
                   {"samples_per_second", number(run.samples_per_second)},
                   {"time", number(run.last_time)}});
  }
  return Json{{"runs", all}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::report
