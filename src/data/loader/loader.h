#pragma once

// This rank's micro-batches, in order, read ahead by threads, on the device and augmented.
//
// With SampleSpec::length_window (and shuffle) batches hold samples of like length, see epoch_order.h.
// The n-th batch is a function of (store, ids, options, shard) alone. A micro-step without samples for this rank still
// yields a Batch, with samples() == 0. uint8 goes to the device; flip, crop, jitter and normalisation happen there (on
// a GPU: by kernels on the current stream of the calling thread; the copy runs on a stream of its own). On the CPU the
// reader threads do it. Rows are read straight into the padded batch. Errors of the readers (DataError naming
// file#sample: damage, a row value that is no finite number, a sample without rows or with too many) are thrown by
// next(), or with skip_bad the sample is left out of its batch, and named in one warning. Thread-safety: one thread
// calls next()/seek(). Ownership: borrows the Store.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/order/shard.h"
#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::data {

struct LoaderOptions {
  int64_t batch_size = 32;
  int64_t global_batch = 32;
  int64_t steps = -1;   // stop after this many optimizer steps in all; -1: endless (training)
  bool shuffle = true;  // false: the order of `ids` (evaluation)
  bool augment = true;  // false: centre crop and normalisation only
  uint64_t seed = 1;
  int threads = 1;
  int prefetch = 4;
  bool verify = false;        // check each sample's checksum
  bool skip_bad = false;      // leave a sample that cannot be read out of its batch instead of throwing
  bool check_targets = true;  // skip_bad: also one whose target cannot be learned from
  at::Device device = at::kCPU;
};

// One pass over `samples` samples in their order, without augmentation, by `ranks` ranks: evaluation and prediction.
LoaderOptions one_pass(int64_t samples, int64_t batch_size, int ranks = 1);

class DeviceStage;

class Loader {
 public:
  // Throws DataError if there are no ids, an id is not in the file, or its samples are not of the spec's kind.
  Loader(const Store&, std::vector<int64_t> ids, SampleSpec, LoaderOptions, Shard);
  Loader(const Store&, std::vector<int64_t> ids, SampleSpec, LoaderOptions, Shard, std::unique_ptr<DeviceStage>);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Requires: !done(). With a device, `arrived` is called between the wait for the readers and what the current stream
  // then does: it waits for the copy and augments.
  Batch next(const std::function<void()>& arrived = {});
  bool done() const;        // options.steps reached
  void seek(int64_t step);  // the next batch is micro-step 0 of optimizer step `step` (resume)
  int64_t steps_per_epoch() const;
  int64_t bytes_read() const;                // since construction
  int queue_depth() const;                   // batches ready now
  const std::set<int64_t>& bad_ids() const;  // of the samples left out so far (skip_bad)

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::data
