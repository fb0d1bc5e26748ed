#pragma once

// The exponential moving average of the weights (EMA), as torch's AveragedModel with get_ema_multi_avg_fn: the first
// step copies them, then average += (1 - decay) × (weights - average). On the device, without host synchronisation; a
// step that the optimizer skipped does not count. What is evaluated and saved as the model is the average.
// Thread-safety: none; the training thread owns it. Ownership: keeps handles of the parameters.

#include <torch/torch.h>

#include <vector>

#include "checkpoint/safetensors.h"

namespace dtrain::train {

class WeightAverage {
 public:
  WeightAverage(const torch::nn::Module&, double decay);  // 0: not enabled, everything below does nothing

  bool enabled() const { return decay_ > 0; }
  void update(const at::Tensor& found_inf);  // after each optimizer step; float32 device scalar, 1: it was skipped

  // For its lifetime the module's parameters hold the average (once there is one).
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

  // CPU copies: the weights themselves as "param.NAME", and "ema_updates". Nothing if not enabled. Not inside a Scope.
  checkpoint::NamedTensors state() const;
  // Takes the module's present parameters as the average and puts the weights of `saved` into the module; removes what
  // it has used from `saved`. Saved without an average: it begins with the present weights. Not enabled now but saved
  // with one: the weights themselves go on, the average ends. CheckpointError when a weight is missing or misshapen.
  void load(checkpoint::NamedTensors& saved);

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, average_;  // all parameters, in the order of names_
  double decay_;
  at::Tensor updates_;  // float32 scalar on the device
};

}  // namespace dtrain::train
