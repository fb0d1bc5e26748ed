#pragma once

// What a step keeps of the losses of a micro-step, before their backward pass.

#include <torch/types.h>

#include <cstdint>

#include "tasks/loss.h"
#include "train/grad_scaler.h"

namespace dtrain::train {

// Where they are kept, on their device.
struct LossNotes {
  at::Tensor sums;    // float64 [2]: sum of the losses and of their weights, to which is added
  at::Tensor record;  // BadLosses::record()
};

// Returns the gradient with which the backward pass of the losses begins, [B]: the scaler's
// first_gradient() for each. ids: int64 [B] on their device. On a GPU all is one launch that adds
// in float64, after a cast of a weight that is there in another type; on the CPU LibTorch adds in
// the losses' type. Nothing waits for the device. Error if sizes, types or devices do not fit.
at::Tensor note_losses(const tasks::Loss&, const at::Tensor& ids, const GradScaler&,
                       int64_t power_of_two, const LossNotes&);

}  // namespace dtrain::train
