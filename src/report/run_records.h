#pragma once

// What a run folder tells about its run, as plain values: for `dtrain report`, `dtrain ls` and the
// live page, and how the run ended. Numbers that a file does not have are NaN. read_run.h reads
// them. Pure but for is_run_folder().

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/table.h"
#include "measure/rank_sample.h"
#include "monitoring/step_stats.h"
#include "monitoring/verdict_record.h"
#include "text/named_enum.h"

namespace dtrain::report {

using measure::kUnknown;
using measure::PhaseSeconds;
using measure::Quantity;

// Whether a run is being trained, and how it ended if not. A run that says neither `finished` nor
// `failed`, and whose lock is free, has crashed.
enum class RunState { kRunning, kFinished, kStopped, kFailed, kCrashed, kNothing };
constexpr auto names_of(RunState) {
  return names("running", "finished", "stopped", "failed", "crashed", "no metrics");
}

// The last record of kind `state`.
struct StateRecord {
  std::string state = {};   // "": there is none
  int64_t exit_code = 0;    // set when the process has ended
  std::string reason = {};  // why it ended; "": not known
};

// A run that ended before its planned steps was stopped: on request, or because its metric no
// longer improved.
RunState state_of(bool locked, const StateRecord& last, int64_t step, int64_t planned);

// Whether the folder has files that only a run writes, or those of one that ended before it
// wrote them.
bool is_run_folder(const std::filesystem::path&);

// One rank between two records.
struct RankWindow {
  int64_t rank = 0;
  double step_seconds = kUnknown, other_seconds = kUnknown;  // per optimizer step
  PhaseSeconds phase_seconds{};
  measure::Values values = {};  // per optimizer step
};

// The longest step of a window, as the rank saw it that took longest for it.
struct SlowestStep {
  int64_t step = 0, rank = -1;
  double step_seconds = kUnknown, other_seconds = kUnknown;
  PhaseSeconds phase_seconds{};
};

// A `step` record: means over the `count` optimizer steps that end with `step`.
struct StepWindow {
  int64_t step = 0, count = 1, epoch = 0;
  double time = kUnknown;  // seconds since 1970
  double loss = kUnknown, learning_rate = kUnknown, grad_norm = kUnknown, loss_scale = kUnknown;
  double samples_per_second = kUnknown, step_seconds = kUnknown, other_seconds = kUnknown;
  double memory_bytes = kUnknown, memory_total_bytes = kUnknown;
  PhaseSeconds phase_seconds{};        // rank 0 only
  std::vector<RankWindow> ranks = {};  // ordered as in the file; none in older files
  SlowestStep slowest = {};            // step_seconds: NaN where the record has none

  double longest_seconds() const {
    return std::isnan(slowest.step_seconds) ? step_seconds : slowest.step_seconds;
  }
};

struct RecordedEvaluation {
  int64_t step = 0, epoch = 0, samples = 0;
  double time = kUnknown, seconds = kUnknown;
  std::string split = {};
  std::vector<std::pair<std::string, double>> metrics = {};  // ordered as in the task
  std::vector<Table> tables = {};  // only of the last evaluation of a split

  double metric(std::string_view name) const;  // NaN: it has none of this name
};

struct RecordedRank {
  std::string node = {}, device = {};
  double memory_bytes = kUnknown;
  int64_t cores = 0, threads = 0, loader_threads = 0;
};

struct MetricKind {
  std::string name = {}, unit = {};
  bool known = false;  // whether higher_is_better is known
  bool higher_is_better = false;
};

// environment.json; "" and 0 where it does not say.
struct Environment {
  std::string versions, config_hash, precision, communicator, data, resumed, task, network, metric;
  int64_t world_size = 0, parameters = 0, global_batch = 0;
  int64_t steps_per_epoch = 0, total_steps = 0, train = 0, val = 0, test = 0;
  std::vector<RecordedRank> ranks;
  std::vector<MetricKind> metrics;  // the task's metrics, in its order
};

struct CheckpointFolder {
  std::string name = {};
  int64_t step = 0, bytes = 0;
};

struct RunRecords {
  std::filesystem::path folder;
  std::string name;
  RunState state = RunState::kNothing;
  // config.yaml by dotted name, in its order
  std::vector<std::pair<std::string, std::string>> config;
  Environment environment;
  std::vector<StepWindow> steps;  // ascending; of a long run, neighbors are joined
  // The windows with the longest steps, never joined; longest first
  std::vector<StepWindow> slowest;
  std::vector<RecordedEvaluation> evaluations;  // ascending by step
  monitoring::VerdictRecord verdict;            // the last one
  std::vector<CheckpointFolder> checkpoints;    // newest first; by name and size, not verified
  int64_t last_step = 0;          // latest in any record; a step between two step lines has none
  int64_t saves = 0;              // checkpoint records
  double save_seconds = 0;        // total of all saves
  double evaluation_seconds = 0;  // all evaluations, also those that `evaluations` lacks
  double last_time = kUnknown;    // time of the last record, seconds since 1970
  std::string reason;             // why it ended; "": not known
  double best_value = kUnknown;   // watched metric: best in the newest checkpoint and `evaluations`
  int64_t best_step = -1;
  std::string best_metric;
  std::vector<std::string> gaps;  // what is missing, damaged or unknown, in words

  std::string setting(std::string_view key) const;  // value in `config`; "": it has none
  std::string task() const;  // environment.json says it, or else `config`; "": neither
};

// What is known of a metric by its name, for runs whose environment.json does not say it.
MetricKind kind_of_metric(const RunRecords&, std::string_view name);

}  // namespace dtrain::report
