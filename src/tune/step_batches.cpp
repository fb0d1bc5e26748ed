#include "tune/step_batches.h"

#include <algorithm>

#include "train/batch_arithmetic.h"

namespace dtrain::tune {

int64_t StepBatches::share() const { return (std::min(global_batch, samples) + ranks - 1) / ranks; }

int64_t StepBatches::accumulate_of(int64_t batch_size) const {
  return keeps_with(batch_size) ? train::micro_steps(share(), 1, batch_size) : 1;
}

int64_t StepBatches::micro_batch_of(int64_t batch_size) const {
  return keeps_with(batch_size) ? train::micro_steps(share(), 1, accumulate_of(batch_size))
                                : batch_size;
}

int64_t StepBatches::step_samples_of(int64_t batch_size) const {
  return keeps_with(batch_size) ? std::min(global_batch, samples) : batch_size * ranks;
}

int64_t StepBatches::global_batch_of(int64_t batch_size) const {
  return keeps_with(batch_size) ? global_batch : batch_size * ranks;
}

double step_seconds_with(int64_t accumulate, double step_seconds, double micro_seconds) {
  return step_seconds + static_cast<double>(accumulate - 1) * std::min(micro_seconds, step_seconds);
}

}  // namespace dtrain::tune
