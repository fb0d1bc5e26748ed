#pragma once

// A fingerprint of the samples that training has consumed: the sum modulo 2^64 of a hash of (epoch,
// sample id). It does not depend on the order, so its sum over all ranks is the same for any world
// size. It is logged, and each checkpoint stores it.

#include <cstdint>

#include "core/random.h"

namespace dtrain::data {

class Ledger {
 public:
  explicit Ledger(uint64_t value = 0) : value_(value) {}
  void add(int64_t epoch, int64_t sample_id) {
    value_ += keyed(static_cast<uint64_t>(Purpose::kLedger), static_cast<uint64_t>(epoch),
                    static_cast<uint64_t>(sample_id));
  }
  uint64_t value() const { return value_; }  // this rank's; the sum over ranks is the run's value

 private:
  uint64_t value_;
};

}  // namespace dtrain::data
