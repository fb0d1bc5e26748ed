#pragma once

// The order of samples in an epoch, as a pure function of (samples, seed, epoch, global batch).
// Every rank computes the same order without communication, and any step without computing the
// steps before it.

#include <cstdint>
#include <functional>
#include <vector>

namespace dtrain::data {

// Groups samples of similar length, which reduces padding. The epoch's permutation is divided into
// windows of `window` global batches. The samples of a window are sorted by (length, index) and
// divided into global batches, which are then shuffled. If the epoch does not divide evenly, its
// last batch is smaller, and which part of the sorted window it takes is random.
struct LengthWindows {
  int64_t samples = 0, global_batch = 0;
  int64_t window = 0;  // size in global batches
  // First position in the epoch
  int64_t begin(int64_t index) const { return index * window * global_batch; }
};
// The samples of window `index` in epoch order, as indices in [0, samples). `key` is the epoch's
// random key.
std::vector<int64_t> length_window(const LengthWindows&, int64_t index, uint64_t key,
                                   const std::function<int64_t(int64_t)>& length_of);

struct EpochOrderOptions {
  bool shuffle = true;  // false: 0, 1, 2, ... in every epoch
  uint64_t seed = 1;
  int64_t global_batch = 1;
  int64_t length_window = 0;  // window size in global batches; 0: ignores lengths
};

// Maps positions to samples. Caches the window that was used last. Thread-safety: one thread at
// a time.
class EpochOrder {
 public:
  // `length_of` is called with indices in [0, samples), and only if there is a length window.
  EpochOrder(int64_t samples, EpochOrderOptions, std::function<int64_t(int64_t)> length_of);
  int64_t operator()(int64_t epoch, int64_t position);  // returns an index in [0, samples)

 private:
  int64_t samples_;
  EpochOrderOptions options_;
  std::function<int64_t(int64_t)> length_of_;
  int64_t epoch_ = -1, window_ = -1;  // the window that indices_ holds
  std::vector<int64_t> indices_;
};

}  // namespace dtrain::data
