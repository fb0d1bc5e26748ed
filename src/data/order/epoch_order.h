#pragma once

// Which sample is at which position of an epoch: pure functions of (samples, seed, epoch, global batch), so that
// every rank knows the same order without communication, and any step of it without the steps before.

#include <cstdint>
#include <functional>
#include <vector>

namespace dtrain::data {

// Batches of like length, so that little of a batch is padding. The epoch's permutation is cut into windows of
// `window` global batches; a window's samples are sorted by (length, index) and cut into global batches, whose order is
// drawn. An epoch that does not divide ends in a smaller batch, the last one as always; what lengths it holds is drawn.
struct LengthWindows {
  int64_t samples = 0, global_batch = 0;
  int64_t window = 0;                                                           // global batches
  int64_t begin(int64_t index) const { return index * window * global_batch; }  // position in the epoch
};
// The samples of window `index` in the order of their positions, as indices of [0, samples). `key` is the epoch's.
std::vector<int64_t> length_window(const LengthWindows&, int64_t index, uint64_t key,
                                   const std::function<int64_t(int64_t)>& length_of);

struct EpochOrderOptions {
  bool shuffle = true;  // false: 0, 1, 2, ... in every epoch
  uint64_t seed = 1;
  int64_t global_batch = 1;
  int64_t length_window = 0;  // global batches; 0: lengths are ignored
};

// Holds the window asked for last. Thread-safety: one thread at a time.
class EpochOrder {
 public:
  // `length_of` is asked for indices of [0, samples), only with a length window.
  EpochOrder(int64_t samples, EpochOrderOptions, std::function<int64_t(int64_t)> length_of);
  int64_t operator()(int64_t epoch, int64_t position);  // -> index

 private:
  int64_t samples_;
  EpochOrderOptions options_;
  std::function<int64_t(int64_t)> length_of_;
  int64_t epoch_ = -1, window_ = -1;  // what indices_ holds
  std::vector<int64_t> indices_;
};

}  // namespace dtrain::data
