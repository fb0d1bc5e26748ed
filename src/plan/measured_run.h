#pragma once

// What a plan calculates from: the steps of a run, measured by job/step_probe.h here, or read from
// the JSON that `dtrain bench step --json` wrote on another machine. Plain values.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "plan/overlap.h"
#include "train/measured_steps.h"

namespace dtrain::plan {

// Micro-steps of one size on one rank, in seconds. Means, without the time in which the rank waited
// for others.
struct MeasuredBatch {
  int64_t samples = 0;  // per micro-step
  double data = 0, h2d = 0, forward = 0, backward = 0;
  double load = 0;  // that the loader needs for a micro-batch, however long the rank waited for it
  double deviation = 0;  // one standard deviation of its own time, from micro-step to micro-step
  double optimizer = 0, other = 0;  // per optimizer step
  double step = 0;                  // the whole optimizer step, with all waiting
  train::StepMemory memory = {};
};

struct MeasuredRun {
  std::string source;  // "here", or the file
  std::string network, precision, device, data;
  int64_t ranks = 1;                        // that it was measured on
  int64_t samples = 0;                      // size of the training split
  int64_t prefetch = 0;                     // batches that are read ahead
  int64_t micro_steps = 1;                  // per measured optimizer step
  std::vector<MeasuredBatch> batches = {};  // ascending by size, each size once; never empty
  std::vector<TimedBucket> buckets = {};    // gradient buckets in the order of sending
  std::vector<double> statistics = {};      // bytes of each sum of batch norm's, of one micro-step
  // Sizes for which there was too little memory, and what was missing.
  std::vector<std::pair<int64_t, std::string>> too_large = {};
  bool on_gpu() const { return device != "cpu"; }
};

// At any size: in a straight line between the two sizes beside it. Beyond the measured sizes, in
// proportion from one size alone; from several, on the line through the two at that end, but no
// less than in proportion for fewer samples, and no more than that for more.
MeasuredBatch at_size(const MeasuredRun&, int64_t samples);
bool was_measured(const MeasuredRun&, int64_t samples);

// DataError that says what is missing or wrong in the file.
MeasuredRun read_measured_run(const std::filesystem::path& file);

}  // namespace dtrain::plan
