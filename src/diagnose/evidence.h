#pragma once

// What a run has measured, as its diagnosis takes it: the steps of every rank, what their loaders,
// cores and networks did meanwhile, and the settings that could be changed. Plain values without a
// device, a clock or a file, so that a test can make any run, and a run that was recorded can be
// judged again. Times are in seconds, sizes in bytes. NaN: it was not measured.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/what_if.h"
#include "measure/windows.h"

namespace dtrain::diagnose {

using measure::kUnknown;
using measure::MemoryPoint;
using measure::Quantity;
using measure::Steps;
using measure::Values;

// Half of the reader threads, as the loader counts them (data/loader/read_ahead.h). Requires: at
// least two.
constexpr int few_readers(int threads) { return threads / 2; }

// What was measured per optimizer step, over the same steps for all ranks. Some values are made
// ready for the causes (train/run_evidence.h):
//   kCores              the part of the rank, of cores that several ranks may use
//   kThrottled          divided by the cores that the control group ran on
//   kFewSampleSeconds, kManySampleSeconds   over the whole run; unknown if there were few samples
struct RankEvidence {
  Steps steps = {};  // the newest ones, after warm-up
  Values values = {};
  std::vector<MemoryPoint> memory = {};  // resident, in order
  int host = 0;                          // index into RunEvidence::hosts

  int readers() const {
    return std::max(1, static_cast<int>(values.or_zero(Quantity::kLoaderThreads)));
  }
  int compute_threads() const {
    return std::max(1, static_cast<int>(values.or_zero(Quantity::kComputeThreads)));
  }
  // CPU time of the threads that do not compute: readers, communication.
  double side_cpu() const {
    return std::max(0.0, values[Quantity::kCpu] - values[Quantity::kComputeCpu]);
  }
  // Seconds of the reader threads in all stages, summed over them.
  double service() const {
    return values.or_zero(Quantity::kReadSeconds) + values.or_zero(Quantity::kDecodeSeconds) +
           values.or_zero(Quantity::kAugmentSeconds);
  }
};

// A host, per step of the run, as its first rank measured it.
struct HostEvidence {
  std::string name = {};
  Values values = {};            // those of its first rank
  double job_cores = kUnknown;   // cores that any rank of this job may use now
  double others_cpu = kUnknown;  // CPU time of processes that are not ranks of this job
};

// The buckets that a step sends for a value of dist.bucket_mb: their bytes, in the order in which
// they are sent.
struct BucketPlan {
  double mebibytes = 0;
  std::vector<double> bytes = {};
};

// What one all-reduce of the gradients costs when no rank is late (dist/cost_fit.h), and what a
// step sends.
struct NetworkUse {
  double latency = kUnknown, seconds_per_byte = kUnknown;
  double messages = 0, bytes = 0;       // per step: buckets, and the sums of loss and weight
  BucketPlan plan = {};                 // the one that runs
  std::vector<BucketPlan> others = {};  // that could run instead

  bool known() const { return latency >= 0 && seconds_per_byte >= 0; }
};

struct RunSettings {
  int64_t batch_size = 1, accumulate = 1;
  // train.global_batch, from which accumulate follows; 0: it was not given
  int64_t global_batch = 0;
  bool gpu = false;
  std::string precision = "fp32";
  bool narrow_wire = false;     // dist.wire is not fp32
  bool images = true;           // false: samples are rows
  bool can_checkpoint = false;  // model.checkpointing could be turned on
  bool can_use_graphs = false;  // train.cuda_graph could
  bool augments_hue = false;
  bool verifies = false;  // data.verify true
  double steps_per_epoch = 1;
  bool saves_by_steps = false;  // checkpoint.every counts steps or epochs
  bool keeps_best = true;       // checkpoint.keep_best
  double evaluations = 0;       // per step, as planned
  double checkpoints = 0;       // per step, as planned; where that is a time, as often as any came
  int64_t length_window = 0;    // data.length_window
  int64_t length_classes = 0;   // data.length_classes
  double epochs = 0;  // that were begun: in the first one every sample is read for the first time
  double steps_left = kUnknown;  // until the run ends
};

// What follows some steps alone: evaluations, checkpoints. Of the whole process up to now, so also
// those after steps that are no longer kept.
struct RareEvents {
  int64_t count = 0;
  double seconds = 0;  // total time

  void add(double of_one) {
    ++count;
    seconds += of_one;
  }
  double each() const { return count > 0 ? seconds / static_cast<double>(count) : kUnknown; }
};

struct RunEvidence {
  std::vector<RankEvidence> ranks;
  std::vector<HostEvidence> hosts;
  NetworkUse network;
  RunSettings settings;
  // Seconds of a step whose batches were in memory: as if loading were free
  double cached_step = kUnknown;
  double ended_steps = 0;  // steps of this process, warm-up included
  RareEvents evaluations;
  // Saves of checkpoints, except for the one at the end of the run, which stays in any case
  RareEvents saves, saves_of_best;

  // Steps of the whole run
  double total_steps() const {
    return settings.epochs * settings.steps_per_epoch + settings.steps_left;
  }
  std::vector<Steps> steps() const {
    std::vector<Steps> all;
    for (const RankEvidence& rank : ranks) all.push_back(rank.steps);
    return all;
  }
};

}  // namespace dtrain::diagnose
