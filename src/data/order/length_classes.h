#pragma once

// Few lengths for batches of samples of different lengths. A batch is padded to its longest sample;
// padded a little more, to the next of a few lengths, the batches of a run have a few shapes, and
// what is made for a shape (buffers, a CUDA graph, an algorithm of cuDNN) serves many steps.
// Pure functions.

#include <cstdint>
#include <vector>

namespace dtrain::data {

struct PaddedLength {  // `samples` samples are padded to `length`
  int64_t length = 0;
  int64_t samples = 0;
};

// At most `classes` lengths, ascending, the last one the longest of `lengths`: those with which
// padding each entry to the next class adds the fewest rows in all, found by dynamic programming
// over the distinct lengths. (Of more than 1024 distinct lengths neighbors count as the longest of
// them.) Without entries there are no classes. Requires: classes >= 1.
std::vector<int64_t> length_classes(const std::vector<PaddedLength>& lengths, int64_t classes);

// The smallest class that is not below `length`; `length` itself if there is none, and for 0.
int64_t rounded_up(const std::vector<int64_t>& classes, int64_t length);

}  // namespace dtrain::data
