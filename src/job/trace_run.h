#pragma once

// Records optimizer steps of a run on all ranks, on one clock, as a Chrome trace; with `memory`
// also which operators hold the memory at the peaks of forward and backward. `dtrain trace` shows
// it. The run needs no folder, and nothing is written. Thread-safety: the training thread.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "job/training_job.h"
#include "train/measured_steps.h"

namespace dtrain::job {

struct TraceOptions {
  int64_t steps = 5;                      // recorded
  int64_t warm_steps = 3;                 // before them; at least 3
  bool operators = false;                 // every operator of LibTorch
  bool memory = false;                    // who holds the memory
  double most_bytes = 512.0 * (1 << 20);  // limit for the trace; UsageError if it would be larger
};

// What the operators of one name and one module hold at a peak.
struct HeldMemory {
  // See device::OperatorObserver::Owner; "" for what no operator has allocated
  std::string name = {}, module = {};
  bool backward = false;  // they run in the backward pass
  int64_t bytes = 0, tensors = 0;
};

struct PassPeak {
  std::string pass;  // "forward", "backward"
  int64_t bytes = 0;
  std::vector<HeldMemory> held = {};  // the largest first, at most kMostHolders
  int64_t others = 0;                 // bytes of those that are left out
};
inline constexpr size_t kMostHolders = 20;

struct RankSummary {
  int64_t events = 0, left_out = 0;
  double clock_error = 0;  // seconds by which the rank's times may be wrong beside rank 0's
  std::vector<PassPeak> peaks = {};  // with `memory`: forward, backward
  train::StepMemory memory = {};     // what a step needs, by kind
};

struct TraceSummary {
  std::vector<train::MeasuredSteps> measured;  // one per rank, in rank order
  std::vector<RankSummary> ranks;              // one per rank, in rank order
  std::vector<std::string> not_measured;       // "GPU kernels: ..."
};

// `write` receives the text of the trace on rank 0, in pieces. UsageError: it would be too large.
// Running out of memory is a DeviceError of the rank. Ends the run's watch before it writes.
// Collective; every rank gets the same result.
TraceSummary trace_steps(const ConnectedRun&, const TraceOptions&,
                         const std::function<void(std::string_view)>& write);

}  // namespace dtrain::job
