#pragma once

// The numbers of one optimizer step, as every sink gets them. Times in seconds, sizes in bytes; loss, norm and samples
// are global (all ranks), times are this rank's. NaN: not known at this step (only logging steps read the device).

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/table.h"

namespace dtrain::monitoring {

enum class Phase { kDataWait, kH2d, kForward, kBackward, kAllReduceWait, kOptimizer, kCheckpoint, kEval, kCount };
inline constexpr size_t kPhases = static_cast<size_t>(Phase::kCount);
// The label values of dtrain_phase_seconds_total and the keys of metrics.jsonl.
inline constexpr std::array<const char*, kPhases> kPhaseNames = {
    "data_wait", "h2d", "forward", "backward", "allreduce_wait", "optimizer", "checkpoint", "eval"};

struct StepStats {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;   // 1-based, counts optimizer steps, skipped ones too
  int64_t epoch = 0;  // 0-based
  int64_t steps_per_epoch = 0, epochs = 0, total_steps = 0;
  int64_t samples = 0;  // of this step, all ranks
  int64_t micro_steps = 1;
  bool logging = false;  // a logging step: the fields below that are read from the device are known
  double loss = kUnknown, grad_norm = kUnknown, loss_scale = kUnknown;
  double learning_rate = 0;
  int64_t skipped_total = 0;  // optimizer steps skipped for non-finite gradients so far (known at logging steps)
  double step_seconds = 0;
  std::array<double, kPhases>
      phase_seconds{};                   // of this rank; since the last logging step divided by the steps between
  double samples_per_second = kUnknown;  // global, over the last logging interval
  double eta_seconds = kUnknown;
  int64_t bytes_reduced = 0;
  int64_t loader_bytes = 0;  // read since the last step
  int loader_queue = 0;
  double memory_used = 0, memory_total = 0;  // device memory of this rank (CPU: resident set, and the machine's)
  uint64_t ledger = 0;                       // known at logging steps
  double padding_waste = kUnknown;  // share of the rows that are padding, all ranks, since the last logging step
  int64_t bad_samples = 0;          // left out by data.on_bad_sample skip so far, all ranks
};

struct EvalStats {
  int64_t step = 0, epoch = 0;
  std::string split;                                    // "val" | "test"
  std::vector<std::pair<std::string, double>> metrics;  // in the task's order: "loss", the primary one, the others
  std::vector<Table> tables;                            // what is more than one number: per class, histograms
  int64_t samples = 0;
  double seconds = 0;
};

}  // namespace dtrain::monitoring
