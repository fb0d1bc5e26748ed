#pragma once

// AdamW, Adam and SGD by LibTorch's fused operators, over lists of per-parameter views, with the learning rate, the
// clip factor and found_inf as device tensors: a step never asks the device for anything. The arithmetic is
// torch.optim's (AdamW decays the weights, Adam and SGD add the decay to the gradient); a skipped step leaves
// everything as it was. The gradients are the views that the parameters carry as .grad (with the parameters' strides:
// checked, because the fused CPU operators pair elements in memory order). A parameter without a gradient is left
// alone. One fused call per group: parameters of one dtype, decayed or not, with one factor of the learning rate.

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "dist/gradient_reducer.h"

namespace dtrain::train {

class Optimizer {
 public:
  // `lr_ratio`: factor of the learning rate by parameter's name; none: 1 for all.
  Optimizer(const config::Optimizer&, std::vector<dist::NamedParameter> parameters,
            const std::function<double(const std::string&)>& lr_ratio = {});

  // p.grad holds unscaled gradients (afterwards clipped ones). `lr` float64 scalar on the CPU or float32 on the device,
  // `clip` (factor to multiply gradients with, undefined: none) and `found_inf` (float32, 1: skip; undefined: never)
  // are device scalars.
  void step(const at::Tensor& lr, const at::Tensor& clip, const at::Tensor& found_inf);

  // CPU copies in C order: "exp_avg.NAME" and "exp_avg_sq.NAME" of each parameter and one "step" (adamw, adam),
  // "momentum_buffer.NAME" (sgd with momentum).
  checkpoint::NamedTensors state() const;
  void load(const checkpoint::NamedTensors&);  // CheckpointError naming what is missing, unknown or of another shape

 private:
  checkpoint::NamedTensors named_state() const;  // the tensors themselves

  config::Optimizer options_;
  std::vector<dist::NamedParameter> parameters_;
  std::vector<double> lr_ratios_;           // by parameter
  std::vector<at::Tensor> first_, second_;  // moments, by parameter, with its strides; empty where the method has none
  at::Tensor step_;  // float32 scalar: steps taken, without skipped ones (as torch.optim keeps it)
};

// Whether weight decay acts on a parameter. Norms and biases, which are the tensors of one dimension and of none, are
// left alone unless optimizer.decay_norms_and_biases says otherwise: decay would pull a batch norm's scale towards 0.
bool decays(const config::Optimizer&, const at::Tensor& parameter);

}  // namespace dtrain::train
