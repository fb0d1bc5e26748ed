#pragma once

// The input of the encoder phase of task `sequence`: every element gets noise, and spans of rows
// are hidden. A hidden row is hidden in all channels, so it can only be predicted from its
// neighbors in time. The random draws are a function of (seed, epoch, sample id, element): they are
// the same in any batch, with any padding, on CPU and GPU.
//
// Spans: each sample is cut into blocks of `span` rows, with an offset of its own, and each block
// is hidden with probability `share`. One block, chosen uniformly, is always hidden, so that every
// sample has something to predict: the expected hidden share of a sample of n blocks is share + (1
// - share) / n.
//
// Noise: the sum of eight uniform 16-bit integers, scaled to variance 1 (Irwin-Hall; excess
// kurtosis -0.15, bounded at 4.9 standard deviations). It uses integers up to one exact conversion,
// so that CPU and GPU give the same bits, unlike the logarithm and cosine of the
// Box-Muller transform.

#include <ATen/ATen.h>

#include "kernels/masked_noise.h"
#include "layers/random_context.h"

namespace dtrain::layers {

using kernels::MaskedNoise;

struct NoisedRows {
  at::Tensor rows;    // [B, T, F] with noise; hidden rows and rows beyond the lengths are zero
  at::Tensor hidden;  // [B, T] bool
};

// rows [B, T, F] float32 or float64; lengths int64 [B]; drawn by seed, epoch and sample ids of
// `key`. All are on one device. Lengths are limited to [0, T]; in a sample without rows nothing is
// hidden. Asynchronous on a GPU.
NoisedRows hide_and_noise(const at::Tensor& rows, const at::Tensor& lengths,
                          const RandomContext& key, const MaskedNoise&);

}  // namespace dtrain::layers
