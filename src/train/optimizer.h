#pragma once

// AdamW, Adam and SGD by LibTorch's fused operators. Learning rate, clip factor and found_inf are
// device tensors, so a step never waits for the device. The arithmetic is that of torch.optim:
// AdamW decays the weights, Adam and SGD add the decay to the gradient. A skipped step
// changes nothing.
//
// The gradients are the tensors that the parameters hold as .grad. They must have the parameters'
// strides, which is checked: the fused CPU operators pair elements in memory order. A parameter
// without a gradient is ignored. There is one fused call per group of parameters with one dtype,
// with or without decay, and one factor of the learning rate. The groups are made at the first
// step, and again only if a parameter has another gradient tensor than before.
//
// Thread-safety: none; the training thread owns it. Ownership: keeps handles of the parameters.

#include <torch/types.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "dist/gradient_reducer.h"

namespace dtrain::train {

class Optimizer {
 public:
  // `lr_ratio`: factor of the learning rate by the name of the parameter; empty: 1 for all.
  Optimizer(const config::OptimizerConfig&, std::vector<dist::NamedParameter> parameters,
            const std::function<double(const std::string&)>& lr_ratio = {});

  // Takes unscaled gradients, and may clip them in place. All arguments are scalars on the device.
  // `lr`: float64 on the CPU, float32 on a GPU. `clip`: factor to multiply the gradients with;
  // undefined: none. `found_inf`: float32, 1 skips the step; `taken`: 1 - found_inf; both
  // undefined: never skip.
  void step(const at::Tensor& lr, const at::Tensor& clip, const at::Tensor& found_inf,
            const at::Tensor& taken);

  int64_t bytes() const;  // device memory of the moments

  // CPU copies in C order: "exp_avg.NAME" and "exp_avg_sq.NAME" of each parameter and one "step"
  // (adamw, adam), "momentum_buffer.NAME" (sgd with momentum).
  checkpoint::NamedTensors state() const;
  checkpoint::NamedTensors named_state() const;  // what state() copies
  // CheckpointError that names what is missing, unknown or of another shape; then nothing
  // has changed.
  void load(const checkpoint::NamedTensors&);

 private:
  // The fused operators take one dtype, one decay and one learning rate per call.
  // Dtype, decays, factor of the learning rate
  using GroupKey = std::tuple<at::ScalarType, bool, double>;
  struct Group {
    std::vector<at::Tensor> parameters, gradients, first, second, steps;
  };

  bool is_grouped() const;  // whether the groups have the present gradients
  void group();

  config::OptimizerConfig options_;
  std::vector<dist::NamedParameter> parameters_;
  std::vector<double> lr_ratios_;  // one per parameter
  // Moments, one per parameter, with its strides; empty where the method has none
  std::vector<at::Tensor> first_, second_;
  at::Tensor step_;  // float32 scalar: steps taken, without skipped ones, as in torch.optim
  std::map<GroupKey, Group> groups_;
  // One per parameter: the gradient that its group has; undefined: in no group
  std::vector<at::Tensor> grouped_;
};

// Whether weight decay acts on a parameter. Norms and biases (tensors with fewer than two
// dimensions) do not decay unless optimizer.decay_norms_and_biases is set: decay would pull the
// scale of a batch norm towards 0.
bool decays(const config::OptimizerConfig&, const at::Tensor& parameter);

}  // namespace dtrain::train
