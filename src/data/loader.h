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

#include "data/sample_spec.h"
#include "data/shard.h"
#include "data/store.h"

namespace dtrain::data {

struct Batch {
  // On the device. Images [B, 3, S, S] float32, channels_last; rows [B, longest, F] float32, zero beyond a sample's
  // length ([B, ...] as stored where the size is fixed).
  at::Tensor inputs;
  at::Tensor targets;        // [B, ...] float32 or int64; of variable size [B, longest], padded with -1
  at::Tensor lengths;        // [B] int64, rows of each input; undefined for images
  int64_t rows = 0;          // valid rows of this micro-batch: padding waste is 1 - rows / (B * longest)
  std::vector<int64_t> ids;  // B sample ids (in the store)
  struct LeftOut {
    int64_t id = 0;
    std::string reason;  // with the sample's name
  };
  std::vector<LeftOut> left_out;  // skip_bad: the bad samples of this batch, in their order
  int64_t epoch = 0;
  int64_t step = 0;            // optimizer step (0-based)
  int64_t micro = 0;           // micro-step of it
  int64_t micro_steps = 1;     // of this optimizer step, equal on all ranks
  int64_t global_samples = 0;  // of the whole optimizer step, all ranks
  double read_seconds = 0;     // time next() waited for the readers
  int64_t samples() const { return static_cast<int64_t>(ids.size()); }
};

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
