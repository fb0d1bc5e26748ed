#pragma once

// Batch norm with statistics over all ranks (train.sync_batch_norm). The layers know nothing of
// ranks: they receive a function that sums a tensor over ranks, in forward and in backward, on a
// communicator of its own. A rank whose micro-batch has no samples still takes part in these sums:
// it runs one sample of zeros, which adds nothing.
//
// Thread-safety: as PhaseTracker. Ownership: borrows what it is given.

#include <torch/types.h>

#include <optional>

#include "data/batch.h"
#include "data/sample_spec.h"
#include "data/schema.h"
#include "dist/communicator.h"
#include "layers/batch_norm.h"
#include "train/phase_tracker.h"

namespace dtrain::train {

class SharedStatistics {
 public:
  // `communicator`: for tensors of `device`. nullptr: each rank has its own statistics, and a Scope
  // has no effect.
  SharedStatistics(dist::Communicator* communicator, const data::Schema&, const data::SampleSpec&,
                   at::Device device, PhaseTracker&);

  // Whether this rank runs forward and backward on the micro-batch: it has samples, or other ranks
  // wait for it.
  bool runs(const data::Batch& batch) const {
    return batch.samples() > 0 || communicator_ != nullptr;
  }

  data::Batch zero_sample() const;  // one sample of zeros, as the loader would give it

  // For its lifetime, the batch norm layers of the calling thread in training mode share their
  // statistics. Collective, one call of the communicator per layer and direction.
  class Scope {
   public:
    Scope(SharedStatistics& shared, bool has_samples);

   private:
    std::optional<layers::SyncScope> scope_;
  };

  // For its lifetime, what is shared is the sums of this rank alone: the same arithmetic in the
  // same memory, without a collective. It has to live until backward has ended.
  class Alone {
   public:
    explicit Alone(SharedStatistics& shared) : shared_(shared) { shared_.alone_ = true; }
    ~Alone() { shared_.alone_ = false; }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    SharedStatistics& shared_;
  };

 private:
  void sum_over_ranks(at::Tensor& sums);

  dist::Communicator* communicator_;
  const data::Schema& schema_;
  const data::SampleSpec& spec_;
  at::Device device_;
  PhaseTracker& tracker_;
  bool alone_ = false;
};

}  // namespace dtrain::train
