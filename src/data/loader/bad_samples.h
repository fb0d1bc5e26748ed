#pragma once

// The samples that cannot be read and are not to stop the run (LoaderOptions::skip_bad): left out of their batches,
// counted, and each named in one warning. Thread-safety: one thread at a time. Ownership: borrows the Store.

#include <cstdint>
#include <set>
#include <string>

#include "data/loader/pending_batch.h"
#include "data/store.h"

namespace dtrain::data {

class BadSamples {
 public:
  explicit BadSamples(const Store& store) : store_(store) {}
  void leave_out_of(PendingBatch&);                      // whose tensors are made: what is left moves together
  const std::set<int64_t>& ids() const { return ids_; }  // so far

 private:
  void warn(int64_t id, const std::string& message) const;

  const Store& store_;
  std::set<int64_t> ids_;  // warned of
};

}  // namespace dtrain::data
