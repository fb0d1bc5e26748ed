#pragma once

// The sequence of this rank's micro-batches as lists of sample ids: a function of (ids, options,
// shard) alone, without files or tensors. Over all ranks, the micro-batches of a step contain the
// samples of its global batch exactly once. Thread-safety: one thread at a time.

#include <cstdint>
#include <functional>
#include <vector>

#include "data/order/epoch_order.h"
#include "data/order/length_classes.h"
#include "data/order/shard.h"

namespace dtrain::data {

struct MicroStep {
  int64_t step = 0;   // optimizer step, 0-based
  int64_t micro = 0;  // micro-step of the optimizer step, 0-based
  void advance(int64_t micro_steps) {
    if (++micro == micro_steps) ++step, micro = 0;
  }
};

struct MicroBatch {
  std::vector<int64_t> ids;  // may be empty
  int64_t rows = 0;          // sum over its samples; 0 if samples have no length
  int64_t epoch = 0;
  MicroStep at;
  int64_t micro_steps = 1;     // micro-steps of this optimizer step; equal on all ranks
  int64_t global_samples = 0;  // samples of this optimizer step on all ranks
};

struct OrderOptions {
  int64_t batch_size = 32;  // largest number of samples in a micro-batch
  int64_t global_batch = 32;
  int64_t steps = -1;   // number of optimizer steps; -1: unlimited
  bool shuffle = true;  // false: in the order of `ids`
  uint64_t seed = 1;
  int64_t length_window = 0;  // see EpochOrderOptions
  bool avoid_single = false;  // training: divides a step by training_plan(), else by micro_plan()
};

class MicroBatches {
 public:
  // `length_of` returns the number of rows of the sample with that id; null if samples have no
  // length. Requires: at least one id.
  MicroBatches(std::vector<int64_t> ids, OrderOptions, Shard,
               std::function<int64_t(int64_t id)> length_of = nullptr);
  MicroBatches(const MicroBatches&) = delete;
  MicroBatches& operator=(const MicroBatches&) = delete;

  bool done() const { return options_.steps >= 0 && next_.step >= options_.steps; }
  int64_t samples();  // number of samples of the next micro-batch. Requires: !done()
  MicroBatch next();  // Requires: !done()
  // next() continues with the first micro-step of optimizer step `step`
  void seek(int64_t step) { next_ = {step, 0}; }

  int64_t steps_per_epoch() const;
  int64_t largest() const;  // upper bound of the samples in a micro-batch of this rank
  int64_t any_id() const { return ids_[0]; }
  // What the micro-batches of the first epoch, of all ranks, are padded to: the longest sample of
  // each, by the lengths of the constructor. So it is the same on each rank. Of very long epochs
  // the first steps, of `most` samples or more.
  std::vector<PaddedLength> padded_lengths(int64_t most = 1 << 20);

 private:
  int64_t count() const { return static_cast<int64_t>(ids_.size()); }
  Range positions();  // range of the next micro-batch within its epoch
  MicroPlan plan_of(const GlobalBatch&, int rank) const;

  const std::vector<int64_t> ids_;
  const OrderOptions options_;
  const Shard shard_;
  const std::function<int64_t(int64_t)> length_of_;
  EpochOrder order_;
  MicroStep next_;
  int64_t planned_step_ = -1;  // the step of global_ and plan_
  GlobalBatch global_;
  MicroPlan plan_;
};

}  // namespace dtrain::data
