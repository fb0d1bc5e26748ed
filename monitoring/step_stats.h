#pragma once

// The numbers of an optimizer step and of an evaluation, as all sinks receive them. Times are in
// seconds and sizes in bytes. Loss, norm and samples are of all ranks, times and memory of this
// rank. NaN means unknown: only logging steps read the device.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/table.h"
#include "measure/rank_sample.h"
#include "measure/step_times.h"

namespace dtrain::monitoring {

// What one communicator has carried by one kind of operation, since the start of the process.
struct CollectiveStats {
  std::string communicator;  // "gradients", "statistics", "host"
  std::string operation;     // "all_reduce", ...
  double bytes = 0, seconds = 0;
};

struct StepStats {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;   // 1-based, counts optimizer steps, skipped ones too
  int64_t epoch = 0;  // 0-based
  int64_t steps_per_epoch = 0, epochs = 0, total_steps = 0;
  int64_t samples = 0;  // all ranks, this step
  int64_t micro_steps = 1;
  bool logging = false;  // a logging step, at which the values that come from the device are known
  // Results and settings of the run, which no rank measures: they have no row among the quantities
  double loss = kUnknown, grad_norm = kUnknown, learning_rate = 0;
  // Memory, counts since the run began and the loss scale; known at logging steps
  measure::Values values = {};
  double step_seconds = 0;                // wall time; at logging steps the mean since the last one
  measure::PhaseSeconds phase_seconds{};  // mean per step since the last logging step
  double other_seconds = 0;               // likewise, in no phase
  double samples_per_second = kUnknown;   // all ranks, since the last logging step
  double eta_seconds = kUnknown;
  int64_t bytes_reduced = 0;
  int64_t loader_bytes = 0;  // read since the last step
  int loader_queue = 0;
  std::vector<CollectiveStats> collectives = {};  // known at logging steps
  uint64_t ledger = 0;  // checksum of the samples used so far; known at logging steps
  // Share of padding in the rows of all ranks since the last logging step
  double padding_waste = kUnknown;
  int64_t bad_samples = 0;  // left out so far by data.on_bad_sample skip, all ranks
  std::optional<measure::RankMeans> own = {};  // this rank; set at logging steps
  // Set on rank 0 at logging steps; with very many ranks only the slowest
  std::vector<measure::RankMeans> ranks = {};
  // On rank 0 at logging steps: of the steps of all ranks that have ended since the last one.
  std::optional<measure::SlowStep> slowest = {};
};

struct EvalStats {
  int64_t step = 0, epoch = 0;
  std::string split;                                    // "val" or "test"
  std::vector<std::pair<std::string, double>> metrics;  // ordered as in the task, "loss" first
  std::vector<Table> tables;  // metrics of more than one number: per class, histograms
  int64_t samples = 0;
  double seconds = 0;
  std::map<std::string, std::string> units = {};  // key: metric; only those that have a unit
};

}  // namespace dtrain::monitoring
