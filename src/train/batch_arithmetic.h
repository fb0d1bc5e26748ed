#pragma once

// Which samples a run trains on, and in what portions: `global batch 256 = 4 ranks × 32 ×
// accumulate 2`. All of it follows from the configuration, the world size and the data. Pure.

#include <cstdint>
#include <string>

#include "config/config.h"
#include "data/order/splits.h"

namespace dtrain::train {

struct BatchArithmetic {
  int64_t global_batch = 0;  // samples per optimizer step
  int64_t batch_size = 0;    // most samples of a micro-step on one rank
  int64_t accumulate = 0;    // micro-steps of a full step
  int64_t ranks = 1;
  int64_t samples = 0;  // per epoch
  int64_t steps_per_epoch = 0;
  // Samples of the last step of an epoch if they are fewer than global_batch, else 0
  int64_t tail = 0;
  int64_t total_steps = 0;
};

// Micro-steps that a rank needs for its share of a global batch.
int64_t micro_steps(int64_t global_batch, int64_t ranks, int64_t batch_size);

// `samples`: of the training split. A global batch goes before train.accumulate.
BatchArithmetic batch_arithmetic(const config::Train&, int64_t ranks, int64_t samples);
// That occurs: there may be fewer samples than batch_size
int64_t largest_micro_batch(const BatchArithmetic&);
std::string describe(const BatchArithmetic&);  // one line for people
// The flags of the same training, with the same global batch, by micro-batches of `batch_size`:
// "--batch-size 8 --accumulate 4".
std::string micro_batch_flags(const BatchArithmetic&, int64_t batch_size);

// Which steps of a training have micro-batches of exactly one sample, though data::training_plan()
// avoids them.
struct SingleSamples {
  bool first = false;  // full steps: as the first micro-batch of a rank
  bool full = false;   // full steps
  bool tail = false;   // the last step of an epoch, where it is smaller
  bool any() const { return full || tail; }
};
SingleSamples single_samples(const BatchArithmetic&);
// Whether some micro-batches have two samples, of which data.on_bad_sample skip may leave one.
bool has_pairs(const BatchArithmetic&);

// The flags with which the same training has none, by the batch sizes nearest to that of the run,
// or by the nearest global batches where no batch size avoids them: "--batch-size 16 or 18". With
// `keeps_global_batch` a batch size does not change the global batch. "": there are none.
std::string flags_without_single_samples(const BatchArithmetic&, bool keeps_global_batch);

// train.overfit_batches: can the network learn a few batches by heart? If not, data, loss or
// network have a bug. Returns `samples` of the training split (all of it if it is smaller), drawn
// by seed, both to train on and to validate on, and no test split.
data::Splits overfit_splits(const data::Splits&, int64_t samples, uint64_t seed);

}  // namespace dtrain::train
