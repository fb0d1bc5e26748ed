#pragma once

// AdamW, Adam and SGD by LibTorch's fused operators, over lists of per-parameter views, with the learning rate, the clip
// factor and found_inf as device tensors: a step never asks the device for anything.
// The gradients are the views that the parameters carry as .grad (with the parameters' strides: asserted, because the fused
// CPU operators pair elements in memory order).

#include <torch/torch.h>

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "dist/gradient_reducer.h"

namespace dtrain::train {

class Optimizer {
 public:
  Optimizer(const config::Optimizer&, std::vector<dist::NamedParameter> parameters);

  // p.grad holds unscaled gradients. `lr` float64 scalar on the CPU or float32 on the device, `clip` (factor to multiply
  // gradients with, undefined: none) and `found_inf` (float32, 1: skip; undefined: never) are device scalars.
  void step(const at::Tensor& lr, const at::Tensor& clip, const at::Tensor& found_inf);

  checkpoint::NamedTensors state() const;              // CPU copies: "exp_avg.NAME", "exp_avg_sq.NAME", "step.NAME", ...
  void load(const checkpoint::NamedTensors&);          // CheckpointError naming what is missing or of another shape

 private:
  config::Optimizer options_;
  std::vector<dist::NamedParameter> parameters_;
  std::vector<at::Tensor> first_, second_, steps_;
};

}  // namespace dtrain::train
