#pragma once

// Clipping of the whole gradient on the flat buckets, after unscaling, without host synchronisation. Both kinds at once
// mean what the two calls in this order mean in Python: clip_grad_value_, then clip_grad_norm_ of what that left.

#include <torch/torch.h>

#include <vector>

#include "config/config.h"

namespace dtrain::train {

// min(1, limit / (norm + 1e-6)) on the device, in the dtype of norm (torch's clip_grad_norm_ formula).
at::Tensor clip_factor(const at::Tensor& norm, double limit);

// Clamps `flat` to ±optimizer.clip_value (0: not) and returns the factor that optimizer.clip_norm asks the gradient to
// be multiplied with, undefined for none. `norm` is that of `flat` as given.
at::Tensor clip(const std::vector<at::Tensor>& flat, const at::Tensor& norm, const config::Optimizer&);

// The norm of all of `flat` in `dtype`, on the device.
at::Tensor norm_of(const std::vector<at::Tensor>& flat, at::ScalarType dtype);

}  // namespace dtrain::train
