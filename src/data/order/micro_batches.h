#pragma once

// The micro-batches of this rank, one after another, as sample ids: a function of (ids, options, shard) alone. Knows
// neither files nor tensors. Thread-safety: one thread at a time.

#include <cstdint>
#include <functional>
#include <vector>

#include "data/order/epoch_order.h"
#include "data/order/shard.h"

namespace dtrain::data {

struct MicroStep {
  int64_t step = 0, micro = 0;
  void advance(int64_t micro_steps) {
    if (++micro == micro_steps) ++step, micro = 0;
  }
};

struct MicroBatch {
  std::vector<int64_t> ids;  // may be empty
  int64_t rows = 0;          // of all its samples; 0 without lengths
  int64_t epoch = 0;
  MicroStep at;                // optimizer step and micro-step of it (0-based)
  int64_t micro_steps = 1;     // of this optimizer step, equal on all ranks
  int64_t global_samples = 0;  // of the whole optimizer step, all ranks
};

struct OrderOptions {
  int64_t batch_size = 32;  // samples of a micro-batch, at the most
  int64_t global_batch = 32;
  int64_t steps = -1;   // end after this many optimizer steps; -1: endless
  bool shuffle = true;  // false: the order of `ids`
  uint64_t seed = 1;
  int64_t length_window = 0;  // see EpochOrderOptions
};

class MicroBatches {
 public:
  // Requires at least one id. `length_of`: rows of the sample with an id; null where samples have no rows.
  MicroBatches(std::vector<int64_t> ids, OrderOptions, Shard, std::function<int64_t(int64_t id)> length_of = nullptr);
  MicroBatches(const MicroBatches&) = delete;
  MicroBatches& operator=(const MicroBatches&) = delete;

  bool done() const { return options_.steps >= 0 && next_.step >= options_.steps; }
  int64_t samples();  // of what next() will return. Requires: !done()
  MicroBatch next();  // Requires: !done()
  void seek(int64_t step) { next_ = {step, 0}; }

  int64_t steps_per_epoch() const;
  int64_t largest() const;  // samples of a micro-batch of this rank, at the most
  int64_t any_id() const { return ids_[0]; }

 private:
  int64_t count() const { return static_cast<int64_t>(ids_.size()); }
  Range positions();  // of the next micro-batch, in its epoch

  const std::vector<int64_t> ids_;
  const OrderOptions options_;
  const Shard shard_;
  const std::function<int64_t(int64_t)> length_of_;
  EpochOrder order_;
  MicroStep next_;
  int64_t planned_step_ = -1;  // what the next two are for
  GlobalBatch global_;
  MicroPlan plan_;
};

}  // namespace dtrain::data
