#pragma once

// The cross entropy of logits and classes.

#include <torch/types.h>

namespace dtrain::layers {

// [B], that of each sample, as torch's cross_entropy without a reduction. logits: [B, classes] in
// any floating type; computed in float32 at least, whose type the losses have. targets: int64 [B],
// where ignore_index has a loss of 0. weights: of the losses' type [classes]; undefined: all are 1.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& weights = {}, double label_smoothing = 0,
                         int64_t ignore_index = -100);

}  // namespace dtrain::layers
