#pragma once

// The bad samples of a run that skips them (LoaderOptions::skip_bad): removes them from their
// batches, remembers their ids, and logs one warning for each. Thread-safety: one thread at a time.
// Ownership: borrows the Store.

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/loader/pending_batch.h"
#include "data/store.h"

namespace dtrain::data {

class BadSamples {
 public:
  // `length_classes`: as for packed_batch().
  explicit BadSamples(const Store& store, std::vector<int64_t> length_classes = {})
      : store_(store), length_classes_(std::move(length_classes)) {}
  // Removes the batch's bad samples from its tensors, which must exist. The rest is padded to its
  // longest sample, or to the class of that length.
  void leave_out_of(PendingBatch&);
  const std::set<int64_t>& ids() const { return ids_; }  // all bad samples so far

 private:
  void warn(int64_t id, const std::string& message) const;

  const Store& store_;
  const std::vector<int64_t> length_classes_;
  std::set<int64_t> ids_;  // already logged
};

}  // namespace dtrain::data
