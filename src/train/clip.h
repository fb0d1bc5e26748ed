#pragma once

// Clipping of the whole gradient on the flat buckets, after unscaling, without waiting for the
// device. Clipping by value and by norm together equals clip_grad_value_ and then clip_grad_norm_
// in Python.

#include <torch/types.h>

#include <vector>

#include "config/config.h"

namespace dtrain::train {

// min(1, limit / (norm + 1e-6)) on the device, in the dtype of `norm`, as torch's clip_grad_norm_
// computes it.
at::Tensor clip_factor(const at::Tensor& norm, double limit);

// Clamps `flat` to ±optimizer.clip_value, and returns the factor to multiply the gradient with for
// optimizer.clip_norm (undefined: no factor). A limit of 0 means no clipping. `norm`: of `flat`
// before the call.
at::Tensor clip(const std::vector<at::Tensor>& flat, const at::Tensor& norm,
                const config::OptimizerConfig&);

// The norm of all of `flat` in `dtype`, on the device.
at::Tensor norm_of(const std::vector<at::Tensor>& flat, at::ScalarType dtype);

}  // namespace dtrain::train
