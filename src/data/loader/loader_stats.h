#pragma once

// Where a loader's time went, since it was made: what its reader threads did, summed over them, and
// which side waited. A run that waits for data reads here which stage to change: `wait_seconds`
// grows where reading is too slow, and `full_seconds` where the consumer is. The counters cost a
// few clock reads per sample, and none per pixel. Each counter is exact, but while threads read,
// one may have counted a sample that the next one has not. Thread-safety: plain values.

#include <cstdint>

namespace dtrain::data {

struct LoaderStats {
  int64_t samples = 0;      // that were read, whether taken yet or not
  int64_t bytes = 0;        // stored size of those samples
  double read_seconds = 0;  // from the store to memory: the disk, or the page cache
  // From stored bytes to values: decoding, checksum, the check of values
  double decode_seconds = 0;
  double augment_seconds = 0;  // transforms and normalization on the CPU; with a GPU they run there
  // The part of samples and service_seconds() of those batches that half of the reader threads load
  // alone, now and then (read_ahead.h). If a sample takes longer with all of them at work, they are
  // in each other's way.
  int64_t few_samples = 0;
  double few_seconds = 0;
  // Samples of the verified epoch that were compared with their checksums, and those for which
  // there was no time left (checksum_budget.h). Both are 0 without Verify::kFirstEpoch.
  int64_t compared = 0, not_compared = 0;
  double wait_seconds = 0;  // time that next() waited for a batch
  // Time that reader threads waited, because all of data.prefetch was read ahead
  double full_seconds = 0;

  // Time of the reader threads for all samples
  double service_seconds() const { return read_seconds + decode_seconds + augment_seconds; }

  LoaderStats& operator+=(const LoaderStats& other) { return add(other, 1); }

  // What has been added since `before`, an earlier value of the same loader.
  friend LoaderStats operator-(LoaderStats now, const LoaderStats& before) {
    return now.add(before, -1);
  }

 private:
  LoaderStats& add(const LoaderStats& other, int sign) {
    samples += sign * other.samples;
    bytes += sign * other.bytes;
    read_seconds += sign * other.read_seconds;
    decode_seconds += sign * other.decode_seconds;
    augment_seconds += sign * other.augment_seconds;
    few_samples += sign * other.few_samples;
    few_seconds += sign * other.few_seconds;
    compared += sign * other.compared;
    not_compared += sign * other.not_compared;
    wait_seconds += sign * other.wait_seconds;
    full_seconds += sign * other.full_seconds;
    return *this;
  }
};

}  // namespace dtrain::data
