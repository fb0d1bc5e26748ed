#pragma once

// How a run makes its optimizer steps with a batch size that tune tries. Its share of the samples
// is cut into equal micro-batches, which may be smaller than the batch size: 64 samples with a
// batch size of 48 are 32 and 32. Pure.

#include <cstdint>

namespace dtrain::tune {

struct StepBatches {
  int ranks = 1;
  int64_t global_batch = 0, samples = 0;  // samples: for training
  int64_t given = 0;                      // batch size
  // False: the global batch may change with the batch size, but not where that is as given.
  bool keeps_global_batch = true;

  int64_t share() const;  // samples of a step on the rank that has most, as given
  int64_t accumulate_of(int64_t batch_size) const;    // micro-steps
  int64_t micro_batch_of(int64_t batch_size) const;   // samples of the largest of them
  int64_t step_samples_of(int64_t batch_size) const;  // all ranks
  int64_t global_batch_of(int64_t batch_size) const;

 private:
  bool keeps_with(int64_t batch_size) const { return keeps_global_batch || batch_size == given; }
};

// Seconds of an optimizer step with `accumulate` micro-steps, from one with a single one:
// `micro_seconds` of it are a micro-step of the slowest rank.
double step_seconds_with(int64_t accumulate, double step_seconds, double micro_seconds);

}  // namespace dtrain::tune
