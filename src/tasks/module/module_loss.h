#pragma once

// The losses of task `module`, by name, and the output and targets that each needs. B is the number
// of samples.
//   mse, l1, smooth_l1 (β 1)   output of the targets' shape, except for dimensions of 1; mean over
//                              a sample's elements
//   bce_with_logits            the same, with targets between 0 and 1
//   cross_entropy              output [B, classes, ...], targets int64 [B, ...]
//   nll                        the same, with logarithms of probabilities
// All are computed in float32 at least. The weight is the number of samples; for cross_entropy and
// nll it is the number of targets, without the loader's padding (-1).

#include <string>

#include "config/config.h"
#include "tasks/loss.h"
#include "tasks/metrics.h"

namespace dtrain::tasks {

class ModuleLoss {
 public:
  // ConfigError: label smoothing of another loss than cross_entropy.
  explicit ModuleLoss(config::LossName, double label_smoothing = 0);

  config::LossName name() const { return name_; }
  bool classifies() const {
    return name_ == config::LossName::kCrossEntropy || name_ == config::LossName::kNll;
  }
  bool binary() const { return name_ == config::LossName::kBceWithLogits; }

  // Why output and targets do not fit each other, as a sentence; "": they fit.
  std::string mismatch(const at::Tensor& output, const at::Tensor& targets) const;
  Loss operator()(const at::Tensor& output, const at::Tensor& targets) const;
  // Sum over the batch, as float64, of correct answers (classes; the mean of a sample's elements
  // for bce_with_logits) or of absolute errors (the mean of a sample's elements). It is divided by
  // the weight of the loss.
  at::Tensor measure(const at::Tensor& output, const at::Tensor& targets) const;
  // The metric that measure() sums up: "top1", "accuracy" or "mae".
  MetricSpec metric() const;

 private:
  at::Tensor class_losses(const at::Tensor& output, const at::Tensor& targets) const;

  config::LossName name_;
  double label_smoothing_;
};

}  // namespace dtrain::tasks
