#pragma once

// Batches that were taken from a loader once, given again and again: what a run's rate would be if loading were free.
// The tensors are shared, not copied, so a consumer must not change them. Thread-safety: one thread at a time.

#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "data/batch.h"
#include "data/loader/loader.h"

namespace dtrain::data {

class Replay {
 public:
  // Takes the micro-batches of the next `steps` whole optimizer steps from the loader, which must be at the beginning
  // of a step. They stay in memory.
  Replay(Loader& loader, int64_t steps) {
    DTRAIN_CHECK(steps > 0, "a replay of ", steps, " steps");
    while (steps > 0) {
      batches_.push_back(loader.next());
      if (batches_.back().micro + 1 == batches_.back().micro_steps) --steps;
    }
  }

  // The batches in their order, and after the last one the first. Their step and epoch are those of the first time.
  const Batch& next() { return batches_[next_++ % batches_.size()]; }

  size_t batches() const { return batches_.size(); }

 private:
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

}  // namespace dtrain::data
