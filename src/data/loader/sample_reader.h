#pragma once

// Reads one sample from the store into its place in a batch. On the CPU, images are augmented; rows
// are read directly into the padded batch. Compares checksums as ReadOptions says, and checks that
// row values are finite. Thread-safety: one reader per thread; any thread may call stats().
// Ownership: borrows the Store, the spec and the clock.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/augment/augmenter.h"
#include "data/loader/checksum_budget.h"
#include "data/loader/pending_batch.h"
#include "data/loader/stage_clock.h"
#include "data/store.h"

namespace dtrain::data {

struct ReadOptions {
  bool augment = true;             // false: center crop and normalization only
  uint64_t seed = 1;               // random seed of the augmentation
  Verify verify = Verify::kNever;  // which samples are compared with their checksums
  int64_t verified_epoch = 0;      // that of Verify::kFirstEpoch
  bool skip_bad = false;           // leaves a bad sample out of its batch instead of throwing
  bool check_targets = true;       // with skip_bad: a sample with an invalid target is bad, too
  const Clock* clock = &real_clock();
};

class SampleReader {
 public:
  // Throws DataError if the spec is for images and the store has none.
  SampleReader(const Store&, const SampleSpec&, ReadOptions, trace::Track* = nullptr);

  // Reads sample `item` of the batch. Throws DataError that names FILE#SAMPLE; with skip_bad,
  // leaves the sample out of the batch instead. `few`: half of the readers read this batch alone
  // (for the statistics).
  void read(PendingBatch&, int64_t item, bool few = false);
  LoaderStats stats() const { return counters_.stats(); }  // since construction, of this reader

 private:
  void read_image(PendingBatch&, int64_t item, int64_t id, StageClock&);
  void read_rows(PendingBatch&, int64_t item, int64_t id, StageClock&);
  // Pads with -1 if the size is variable. Returns the sample's own part.
  std::span<std::byte> read_target(PendingBatch&, int64_t item, int64_t id) const;
  void number_classes(std::span<std::byte> target) const;
  void compare_checksum(int64_t id, std::span<const std::byte> input,
                        std::span<const std::byte> target) const;
  // For Verify::kFirstEpoch. It comes after all other checks: they say more about what is wrong,
  // and do so in any run.
  void compare_within_budget(int64_t epoch, int64_t id, std::span<const std::byte> input,
                             std::span<const std::byte> target);
  void refuse_bad_target(int64_t id, std::span<const std::byte> target) const;
  void leave_out(PendingBatch&, int64_t item, const std::string& message) const;
  // Throws DataError unless `what` is empty
  void refuse(int64_t id, const std::string& what) const;

  const Store& store_;
  const Schema& schema_;
  const SampleSpec& spec_;
  const ReadOptions options_;
  ReaderCounters counters_;
  ChecksumBudget budget_{options_.clock->now()};
  trace::Track* const track_;
  // Images only.
  ImageShape shape_;
  std::unique_ptr<Augmenter> augmenter_;
  std::vector<uint8_t> image_;
};

}  // namespace dtrain::data
