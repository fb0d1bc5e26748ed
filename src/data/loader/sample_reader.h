#pragma once

// How a reader thread takes one sample from the file to its place in a batch: images through a decoder and, on the
// CPU's way, the augmentation; rows straight into the padded batch. What it reads is checked: the checksum where asked
// for, rows for values that are no finite numbers. Thread-safety: one per thread; bytes_read() from any. Ownership:
// borrows the Store and the spec.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/augment/augmenter.h"
#include "data/loader/decode.h"
#include "data/loader/pending_batch.h"

namespace dtrain::data {

struct ReadOptions {
  bool augment = true;        // false: centre crop and normalization only
  uint64_t seed = 1;          // of the augmentation
  bool verify = false;        // check each sample's checksum
  bool skip_bad = false;      // leave a sample that cannot be read out of its batch instead of throwing
  bool check_targets = true;  // skip_bad: also one whose target cannot be learned from
};

class SampleReader {
 public:
  // Throws DataError if images are asked for and the store has none.
  SampleReader(const Store&, const SampleSpec&, ReadOptions);

  // Throws DataError naming file#sample, or with skip_bad leaves the sample out of the batch.
  void read(PendingBatch&, int64_t item);
  int64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }  // as stored, since construction

 private:
  void read_image(PendingBatch&, int64_t item, int64_t id);
  void read_rows(PendingBatch&, int64_t item, int64_t id);
  // Padded with -1 where samples differ in their number of targets. Returns the sample's own.
  std::span<std::byte> read_target(PendingBatch&, int64_t item, int64_t id) const;
  void count_and_verify(int64_t id, std::span<const std::byte> input, std::span<const std::byte> target);
  void refuse_bad_target(int64_t id, std::span<const std::byte> target) const;
  void leave_out(PendingBatch&, int64_t item, const std::string& message) const;
  void refuse(int64_t id, const std::string& what) const;  // DataError unless `what` is ""

  const Store& store_;
  const Schema& schema_;
  const SampleSpec& spec_;
  const ReadOptions options_;
  std::atomic<int64_t> bytes_read_ = 0;
  // Of images only.
  ImageShape shape_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Augmenter> augmenter_;
  std::vector<uint8_t> image_;
};

}  // namespace dtrain::data
