#pragma once

// What was really consumed: the order-independent sum (mod 2^64) of a hash of (epoch, sample id) over all samples of
// all ranks. Equal for any world size; logged, and stored in each checkpoint.

#include <cstdint>

#include "core/random.h"

namespace dtrain::data {

class Ledger {
 public:
  explicit Ledger(uint64_t value = 0) : value_(value) {}
  void add(int64_t epoch, int64_t sample_id) {
    value_ +=
        keyed(static_cast<uint64_t>(Purpose::kLedger), static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample_id));
  }
  uint64_t value() const { return value_; }  // of this rank; the job's is the sum over ranks

 private:
  uint64_t value_;
};

}  // namespace dtrain::data
