#pragma once

// The exponential moving average of the weights (EMA), as torch's AveragedModel with
// get_ema_multi_avg_fn: the first step copies the weights, then average += (1 - decay) × (weights -
// average). It is computed on the device, without waiting for it. A step that the optimizer skipped
// does not count. Evaluations and checkpoints use the average as the model's weights.
//
// Thread-safety: none; the training thread owns it. Ownership: keeps handles of the parameters.

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "checkpoint/safetensors.h"

namespace dtrain::train {

class WeightAverage {
 public:
  // 0: not enabled, nothing below has an effect
  WeightAverage(const torch::nn::Module&, double decay);

  bool enabled() const { return decay_ > 0; }
  int64_t bytes() const;                    // device memory of the average
  std::vector<at::Tensor> tensors() const;  // the average, and how often it was updated
  // After each optimizer step. `taken`: float32 scalar on the device; 0 if the step was skipped,
  // 1 if not.
  void update(const at::Tensor& taken);

  // For its lifetime the parameters of the module hold the average (from the first update on).
  class Scope {
   public:
    explicit Scope(const WeightAverage&);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const WeightAverage& average_;
    std::vector<at::Tensor> raw_;
  };

  // CPU copies of the weights themselves as "param.NAME", and "ema_updates"; empty if not enabled.
  // Not inside a Scope.
  checkpoint::NamedTensors state() const;
  // Takes the current parameters of the module as the average, puts the weights of `saved` into the
  // module, and removes from `saved` what it used. If `saved` has no average, the average begins
  // with the current weights. If it has one and averaging is not enabled now, the run continues
  // with the weights themselves. CheckpointError if a weight is missing or has another shape.
  void load(checkpoint::NamedTensors& saved);

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, average_;  // all parameters, in the order of names_
  double decay_;
  at::Tensor updates_;  // float32 scalar on the device
};

}  // namespace dtrain::train
