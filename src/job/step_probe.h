#pragma once

// Measures the optimizer step of a run: phases of every rank, samples per second, memory by kind.
// Steps are whole: the few samples that are left at the end of an epoch are not used. Where the
// task has several phases, the step is the mean one of the run: each of them is measured, and
// counts by its epochs. The run needs no folder, and nothing is written. `dtrain bench step` shows
// it, `dtrain tune` looks for its best and `dtrain plan` calculates from it.
//
// A rank whose memory is full for a batch size ends that measurement on all ranks, not the job,
// unless it happens while the other ranks wait for its gradients. Other errors are those of a
// training. Thread-safety: the training thread.

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "dist/gradient_reducer.h"
#include "job/training_job.h"
#include "train/measured_steps.h"

namespace dtrain::job {

struct StepProbeOptions {
  int64_t batch_size = 0;  // samples per rank and micro-step; 0: that of the run
  int64_t accumulate = 0;  // micro-steps per optimizer step; 0: as many as the run has
  std::function<void(config::Config&)> change = {};  // see StepTrialOptions
  int64_t warm_steps = 3;                            // not timed; at least 1
  // Timed steps; fewer where they would take longer than `seconds`, but two or more in each phase
  // of the task. 0: only the memory is measured, and one step of each phase is made, for what a
  // process allocates in it.
  int64_t steps = 20;
  double seconds = 3;
  bool cached = false;  // also measures, for as long again, steps whose batches are in memory
  bool details = true;  // also makes a few steps more, for `kernel_seconds` and `buckets`
};

struct StepProbe {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  int64_t batch_size = 0, accumulate = 0;
  std::string out_of_memory;  // what could not be allocated, and where; "": it was measured
  // One per rank, in rank order; equal numbers of steps and samples. Empty without timed steps
  std::vector<train::MeasuredSteps> ranks;
  train::StepMemory memory;    // the rank that needs the most
  int64_t process_memory = 0;  // the most that one process used so far, of its device
  // The kernels of one step on the slowest GPU, without gaps between them. kUnknown on the CPU, and
  // where the GPU had to wait for the host.
  double kernel_seconds = kUnknown;
  // Buckets of gradients, in the order of sending, on the first rank with samples, in the phase
  // that sends most.
  std::vector<dist::BucketTime> buckets;
  double cached_seconds = kUnknown;  // one step of the slowest rank, if loading were free
  double mean_rows = kUnknown;       // mean of the training samples, where samples differ in length

  bool measured() const { return out_of_memory.empty(); }
  double step_seconds() const;  // mean of the slowest rank
  // All ranks together. Where samples differ in length, it counts samples of the mean length: the
  // few that were measured may be shorter or longer.
  double samples_per_second() const;
  // Length of the measured samples divided by the mean length; 1 where all have the same length
  double length_ratio() const;
  // Time in one step that the GPU waits for the host to launch kernels; NaN: not measured
  double launch_gap_seconds() const;
};

// The largest; kUnknown if one is not known, or there is none. Pure.
double slowest_of(std::span<const double> seconds);

// Collective; every rank gets the same result.
StepProbe probe_step(const ConnectedRun&, const StepProbeOptions&);

// The batch sizes to measure by default: 1/4, 1/2, 1, 2 and 4 times `batch_size`, at most `most`,
// each once. Pure.
std::vector<int64_t> batch_sizes_around(int64_t batch_size, int64_t most);

}  // namespace dtrain::job
