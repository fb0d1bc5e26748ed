#pragma once

// How a reader thread takes one sample from the file to its place in a batch: images through a decoder and, on the
// CPU's way, the augmentation; rows straight into the padded batch. What it reads is checked: the checksum where asked
// for, rows for values that are no finite numbers. Thread-safety: one per thread; bytes_read() from any. Ownership:
// borrows the Store, spec and options.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/augment.h"
#include "data/decode.h"
#include "data/pending_batch.h"

namespace dtrain::data {

class SampleReader {
 public:
  // Throws DataError if images are asked for and the store has none.
  SampleReader(const Store&, const SampleSpec&, const LoaderOptions&);

  // Throws DataError naming file#sample, or with skip_bad says so to the batch.
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
  const LoaderOptions& options_;
  std::atomic<int64_t> bytes_read_ = 0;
  // Of images only.
  ImageShape shape_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Augmenter> augmenter_;
  std::vector<uint8_t> image_;
};

}  // namespace dtrain::data
