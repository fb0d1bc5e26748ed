#pragma once

// Dynamic loss scaling like torch.amp.GradScaler, without host synchronisation: scale, growth tracker and found_inf live
// on the device; the update is LibTorch's _amp_update_scale_.

#include <torch/torch.h>

#include <vector>

#include "config/config.h"

namespace dtrain::train {

class GradScaler {
 public:
  GradScaler(const config::Amp&, bool enabled, at::Device, at::ScalarType parameter_dtype);

  // One pass over the flat gradients: multiplied by 2^k / (scale × weight), checked. After it found_inf() and norm() are
  // those of the unscaled gradient. Not enabled: scale is 1, a non-finite gradient still sets found_inf.
  void unscale(const std::vector<at::Tensor>& flat, const at::Tensor& weight_sum, int64_t power_of_two);
  at::Tensor scale_loss(const at::Tensor& loss_sum, int64_t power_of_two) const;  // × scale × 2^-k
  void update();

  const at::Tensor& found_inf() const { return found_inf_; }   // float32 scalar: 0 or 1
  const at::Tensor& norm() const { return norm_; }             // scalar of the parameters' dtype
  const at::Tensor& scale() const { return scale_; }
  const at::Tensor& skipped() const { return skipped_; }       // int64 scalar: steps with found_inf so far
  bool enabled() const { return enabled_; }

  struct State {
    double scale = 1;
    int64_t growth_tracker = 0, skipped = 0;
  };
  State state() const;        // reads the device
  void load(const State&);

 private:
  config::Amp options_;
  bool enabled_;
  at::Tensor scale_, growth_tracker_, found_inf_, norm_, skipped_;
};

// min(1, limit / (norm + 1e-6)) on the device, in the dtype of norm (torch's clip_grad_norm_ formula).
at::Tensor clip_factor(const at::Tensor& norm, double limit);

}  // namespace dtrain::train
