#pragma once

// Loads this rank's micro-batches in order. Threads read ahead; batches arrive augmented and on
// the device.
//
// The n-th batch is a function of (store, ids, spec, options, shard) alone. A micro-step without
// samples for this rank still gives a Batch, with samples() == 0. With SampleSpec::length_window
// and shuffle, batches hold samples of similar length (order/epoch_order.h).
//
// For a GPU, images are copied as uint8 on a separate stream, and flip, crop, color jitter and
// normalization run as kernels on the current stream of the calling thread. On the CPU the reader
// threads augment. Rows are read directly into the padded batch.
//
// Errors: next() throws the readers' errors: DataError that names FILE#SAMPLE for damage, a row
// value that is not finite, a sample without rows or with too many. With skip_bad such a sample is
// left out of its batch and logged once as a warning. Thread-safety: one thread at a time.
// Ownership: borrows the Store.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "core/clock.h"
#include "data/batch.h"
#include "data/loader/checksum_budget.h"
#include "data/loader/loader_stats.h"
#include "data/order/shard.h"
#include "data/sample_spec.h"
#include "data/store.h"
#include "trace/recorder.h"

namespace dtrain::data {

struct LoaderOptions {
  int64_t batch_size = 32;
  int64_t global_batch = 32;
  // training: no micro-batch of one sample where that is possible (order/shard.h)
  bool avoid_single = false;
  int64_t steps = -1;   // total number of optimizer steps; -1: unlimited (training)
  bool shuffle = true;  // false: in the order of `ids` (evaluation)
  bool augment = true;  // false: center crop and normalization only
  uint64_t seed = 1;
  int threads = 1;                 // reader threads
  int prefetch = 4;                // batches to read ahead
  Verify verify = Verify::kNever;  // which samples are compared with their checksums
  int64_t verified_epoch = 0;      // that of Verify::kFirstEpoch
  bool skip_bad = false;           // leaves a bad sample out of its batch instead of throwing
  // Now and then lets half of the readers load a batch alone, so that stats() tells whether they
  // are in each other's way. It costs a data-bound run 1/32 of the time of its first 128 batches,
  // and 1/512 later.
  bool compare_readers = false;
  bool check_targets = true;  // with skip_bad: a sample with an invalid target is bad, too
  at::Device device = at::kCPU;
  // Batches of samples of different lengths are padded to one of at most this many lengths; longer
  // ones than in the first epoch, to their longest sample. 0: all are. See order/length_classes.h.
  int64_t length_classes = 0;
  // Batches of one shape have the same tensors, so a batch is valid until the next one
  // (batch_tensors.h). A batch from which samples were left out has tensors of its own.
  bool static_buffers = false;
  trace::Recorder* recorder = nullptr;  // records what the reader threads do
  const Clock* clock = &real_clock();   // borrowed; for stats() and Verify::kFirstEpoch
};

// One pass over `samples` samples in their order, without augmentation, by `ranks` ranks:
// evaluation and prediction.
LoaderOptions one_pass(int64_t samples, int64_t batch_size, int ranks = 1);

class DeviceStage;

class Loader {
 public:
  // Throws DataError if there are no ids, if an id is not in the store, or if its samples do not
  // fit the spec.
  Loader(const Store&, std::vector<int64_t> ids, SampleSpec, LoaderOptions, Shard);
  // Copies and augments batches by the given stage instead of that of options.device.
  Loader(const Store&, std::vector<int64_t> ids, SampleSpec, LoaderOptions, Shard,
         std::unique_ptr<DeviceStage>);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. Waits for the readers. With a GPU, calls `arrived` after that wait and before
  // the current stream has to wait for the copy, and `copied` between that and the augmentation.
  // Requires: !done().
  Batch next(const std::function<void()>& arrived = {}, const std::function<void()>& copied = {});
  bool done() const;        // whether options.steps steps are consumed
  void seek(int64_t step);  // next() continues with the first micro-step of optimizer step `step`
  int64_t steps_per_epoch() const;
  LoaderStats stats() const;  // since construction; any thread may call it
  int64_t bytes_read() const { return stats().bytes; }
  // What batches are padded to; empty: to their longest sample
  const std::vector<int64_t>& length_classes() const;
  int queue_depth() const;                   // number of batches that are ready
  const std::set<int64_t>& bad_ids() const;  // samples left out so far (skip_bad)

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::data
