#pragma once

// Batches that were taken from a loader once, given again and again: what a run's rate would be if
// loading were free. The tensors are shared, not copied, so a consumer must not change them. Those
// of a loader that uses them again are kept as copies, and each batch is written to them again.
// Thread-safety: one thread at a time.

#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "data/batch.h"
#include "data/loader/batch_tensors.h"
#include "data/loader/loader.h"

namespace dtrain::data {

class Replay {
 public:
  // Takes the micro-batches of the next `steps` whole optimizer steps from the loader, which must
  // be at the beginning of a step. The first of them stay in memory, up to `most_bytes`, but at
  // least one. `copies_tensors`: the loader has static buffers.
  Replay(Loader& loader, int64_t steps, int64_t most_bytes, bool copies_tensors = false) {
    DTRAIN_CHECK(steps > 0, "a replay of ", steps, " steps");
    int64_t bytes = 0;
    while (steps > 0) {
      Batch batch = loader.next();
      places_.push_back(
          {batch.epoch, batch.step, batch.micro, batch.micro_steps, batch.global_samples});
      if (batch.micro + 1 == batch.micro_steps) --steps;
      bytes += bytes_of(batch);
      if (!kept_.empty() && bytes > most_bytes) continue;
      if (copies_tensors) {
        homes_.push_back(tensors_of(batch));
        put(copies(homes_.back()), batch);
      }
      kept_.push_back(std::move(batch));
    }
  }

  // The batches in their order, and after the last one the first. Their step and epoch are those of
  // the first time. One that is not in memory has the samples of one that is, in its own place of
  // the step: so steps have as many micro-batches as before, on all ranks.
  Batch next() {
    const size_t i = next_++ % places_.size();
    const Place& place = places_[i];
    Batch batch = kept_[i % kept_.size()];
    if (!homes_.empty()) {
      const BatchTensors& into = homes_[i % kept_.size()];
      copy(tensors_of(batch), into);
      put(into, batch);
    }
    batch.epoch = place.epoch;
    batch.step = place.step;
    batch.micro = place.micro;
    batch.micro_steps = place.micro_steps;
    batch.global_samples = place.global_samples;
    return batch;
  }

  size_t kept() const { return kept_.size(); }  // batches that are in memory

 private:
  struct Place {
    int64_t epoch, step, micro, micro_steps, global_samples;  // see Batch
  };

  static int64_t bytes_of(const Batch& batch) {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : {batch.inputs, batch.targets, batch.lengths}) {
      if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
    }
    return bytes;
  }

  std::vector<Place> places_;
  std::vector<Batch> kept_;
  std::vector<BatchTensors> homes_;  // one per kept batch, where the loader uses tensors again
  size_t next_ = 0;
};

}  // namespace dtrain::data
