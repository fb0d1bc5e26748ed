#pragma once

// Sequences of different lengths without padding, for layers that run step after step on the CPU: a
// packed tensor [N, C] has the rows of step 0, then those of step 1, and so on; the sequences are
// in the order of decreasing length, so that those of a step are the first ones of the step before.
// It is the layout of torch's PackedSequence.
//
// Thread-safety: pure functions.

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace dtrain::layers {

struct PackedSteps {
  // Positions in the batch, by decreasing length; equal lengths keep their order
  std::vector<int64_t> order;
  // For each step the number of sequences that have it: at least 1, never increasing
  std::vector<int64_t> counts;

  int64_t rows() const;        // N, the sum of all lengths
  at::Tensor indices() const;  // `order` as int64 [B]
  at::Tensor inverse() const;  // int64 [B], the position in `order` of each sequence of the batch
};

PackedSteps pack_by_length(const int64_t* lengths, int64_t count);
PackedSteps equal_lengths(int64_t sequences, int64_t steps);

// padded [T, B, C], time first, sequences in the packed order -> [N, C]; and back, with zeros
// beyond the lengths, for any number of steps from that of the longest sequence on. Both pass
// gradients on. CPU only.
at::Tensor pack(const at::Tensor& padded, const PackedSteps&);
at::Tensor unpack(const at::Tensor& packed, const PackedSteps&, int64_t steps);

}  // namespace dtrain::layers
