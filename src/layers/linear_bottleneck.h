#pragma once

// The inner part of an inverted residual block with a linear bottleneck (Sandler et al. 2018), for
// training on the CPU:
//   1 x 1 convolution, batch norm, ReLU6, depthwise 3 x 3 convolution, batch norm, ReLU6,
//   1 x 1 convolution
// The first three are left out where the block does not expand. As one operation it passes over
// memory about half as often as the layers do one by one, because nothing that is normalized is
// written (kernels/fused_convolutions.h).
//
// Thread-safety: as batch norm (batch_norm.h), whose scopes and records apply.

#include <torch/types.h>

#include <cstdint>

#include "layers/batch_norm.h"

namespace dtrain::layers {

struct LinearBottleneck {
  at::Tensor expansion = {};                // [H, C, 1, 1]; undefined: none, and H is C
  BatchNormImpl* expansion_norm = nullptr;  // H channels; required with an expansion
  at::Tensor depthwise = {};                // [H, 1, 3, 3]
  BatchNormImpl* depthwise_norm = nullptr;
  at::Tensor projection = {};  // [C', H, 1, 1]
  int64_t stride = 1;          // stride of the depthwise convolution: 1 or 2
};

// Whether run() takes x [B, C, H, W]: float32 in channels_last on a CPU with AVX2, without
// autocast, where the batch norms are of whole vectors of 16 channels and train on more than one
// value per channel of this rank, and a gradient passes through all of them or none. Otherwise the
// layers are to be run one by one, which gives the same but for rounding, and takes part in the
// same collectives.
bool is_fused(const LinearBottleneck&, const at::Tensor& x);

// [B, C', OH, OW]: the output of the projection.
at::Tensor run(const LinearBottleneck&, const at::Tensor& x);

// While it exists, is_fused() is false on this thread: for a trial on the CPU that stands for a
// GPU, whose layers keep more for backward. Scopes nest.
class LayersOneByOne {
 public:
  LayersOneByOne();
  ~LayersOneByOne();
  LayersOneByOne(const LayersOneByOne&) = delete;
  LayersOneByOne& operator=(const LayersOneByOne&) = delete;
};

}  // namespace dtrain::layers
