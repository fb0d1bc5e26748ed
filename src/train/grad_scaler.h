#pragma once

// Dynamic loss scaling like torch.amp.GradScaler, without waiting for the device: scale, growth
// tracker and found_inf are device tensors (kernels/step_numbers.h).
//
// Gradients are sums over the global batch of scale × 2^-k × loss. The power of two keeps them as
// small as the gradient of a mean (float16 ends at 65504). It is exact, and undone in the one
// division by the weight.
//
// Thread-safety: none; the training thread owns it.

#include <torch/types.h>

#include <vector>

#include "config/config.h"
#include "kernels/step_numbers.h"

namespace dtrain::train {

class GradScaler {
 public:
  // If not enabled, the scale stays 1; a gradient that is not finite still sets found_inf.
  GradScaler(const config::Amp&, bool enabled, at::Device, at::ScalarType parameter_dtype);

  // scale × 2^-k, with which the backward pass of a loss of this dtype begins
  at::Tensor first_gradient(at::ScalarType, int64_t power_of_two) const;

  // Multiplies the flat gradients by 2^k / (scale × weight) and checks them. Then found_inf(),
  // taken() and norm() are those of the unscaled gradient. A weight of 0 (no rank has samples) and
  // a factor that is not finite set found_inf too. A weight of 0 is not an overflow: update() does
  // not count it and leaves the scale as it is.
  void unscale(const std::vector<at::Tensor>& flat, const at::Tensor& weight_sum,
               int64_t power_of_two);
  void update();  // once per optimizer step, after unscale()

  const at::Tensor& found_inf() const { return found_inf_; }  // float32 scalar: 0 or 1
  const at::Tensor& taken() const { return taken_; }          // float32 scalar: 1 - found_inf
  const at::Tensor& norm() const { return norm_; }            // scalar of the parameters' dtype
  const at::Tensor& scale() const { return scale_; }          // float32 scalar
  // int64 scalar: steps with an overflow so far
  const at::Tensor& skipped() const { return skipped_; }
  bool enabled() const { return enabled_; }
  std::vector<at::Tensor> tensors() const;  // all that a step changes

  struct State {
    double scale = 1;
    int64_t growth_tracker = 0, skipped = 0;
  };
  State state() const;  // reads the device
  void load(const State&);

 private:
  kernels::ScalerNumbers numbers() const;
  // On a GPU, of float32 gradients
  void unscale_in_one_pass(const std::vector<at::Tensor>& flat, double power);

  config::Amp options_;
  bool enabled_;
  at::Tensor scale_, growth_tracker_, found_inf_, taken_, norm_, skipped_;
  at::Tensor factor_, factor32_, weight_;  // those of the last unscale()
  at::Tensor partial_;                     // a place for the sums of blocks
};

// The k of docs/promises.md, promise 2: the smallest k >= 0 with 2^k >= planned_weight / ranks.
int64_t loss_power_of_two(double planned_weight, int ranks);

}  // namespace dtrain::train
