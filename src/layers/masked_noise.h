#pragma once

// What the encoder phase of task `sequence` feeds the network: rows with noise on every element and spans of whole rows
// hidden, all channels of a row together, so that a hidden row can only be told from its neighbours in time. The draws
// are a function of (seed, epoch, sample id, element) alone: the same in any batch, at any padding, on CPU and GPU.
//
// Spans: from a start of its own each sample is cut into blocks of `span` rows, and each block is hidden with
// probability `share`. One block, drawn evenly, is hidden in any case, so that every sample has something to rebuild:
// of a sample of n blocks the hidden share is share + (1 - share) / n.
//
// Noise: the sum of eight uniform 16-bit integers, scaled to variance 1 (Irwin-Hall; excess kurtosis -0.15, bounded at
// 4.9 standard deviations). In integers up to one exact conversion, so that CPU and GPU give the same bits, which the
// logarithm and cosine of Box and Muller would not.

#include <ATen/ATen.h>

#include "layers/masked_noise_body.h"

namespace dtrain::layers {

struct NoisedRows {
  at::Tensor rows;    // [B, T, F]: noised; hidden rows and what lies beyond the lengths are zero
  at::Tensor hidden;  // [B, T] bool
};

// rows [B, T, F] float32 or float64; lengths and ids int64 [B], on the device of the rows; a length is taken as within
// 0 and T, and of a sample without rows nothing is hidden. The work is queued.
NoisedRows hide_and_noise(const at::Tensor& rows, const at::Tensor& lengths, const at::Tensor& ids, const MaskedNoise&);

}  // namespace dtrain::layers
