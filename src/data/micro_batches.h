#pragma once

// Which samples this rank reads, micro-step after micro-step: a pure function of (store, ids, options, shard, step)
// that is walked in order. Thread-safety: one thread at a time. Ownership: borrows the Store, spec and options.

#include <cstdint>
#include <vector>

#include "data/epoch_order.h"
#include "data/loader.h"
#include "data/sample_spec.h"
#include "data/shard.h"
#include "data/store.h"

namespace dtrain::data {

struct MicroStep {
  int64_t step = 0, micro = 0;
  void advance(int64_t micro_steps) {
    if (++micro == micro_steps) ++step, micro = 0;
  }
};

class MicroBatches {
 public:
  // Requires ids of the store, at least one.
  MicroBatches(const Store&, std::vector<int64_t> ids, const SampleSpec&, const LoaderOptions&, Shard);
  MicroBatches(const MicroBatches&) = delete;
  MicroBatches& operator=(const MicroBatches&) = delete;

  bool done() const { return options_.steps >= 0 && next_.step >= options_.steps; }
  int64_t samples();  // of what next() will return. Requires: !done()
  Batch next();       // all but its tensors. Requires: !done()
  void seek(int64_t step) { next_ = {step, 0}; }

  int64_t steps_per_epoch() const;
  int64_t largest() const;  // samples of a micro-batch, at the most
  int64_t any_id() const { return ids_[0]; }

 private:
  int64_t count() const { return static_cast<int64_t>(ids_.size()); }
  Range positions();  // of the next micro-batch, in its epoch

  const Store& store_;
  const LoaderOptions& options_;
  const std::vector<int64_t> ids_;
  const bool rows_;
  const Shard shard_;
  EpochOrder order_;
  MicroStep next_;
  int64_t planned_step_ = -1;  // what the next two are for
  GlobalBatch global_;
  MicroPlan plan_;
};

}  // namespace dtrain::data
