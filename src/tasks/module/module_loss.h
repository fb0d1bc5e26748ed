#pragma once

// The losses that a network of one's own may ask for by name, and what each wants of output and targets. B: samples.
//   mse, l1, smooth_l1 (β 1)   output of the targets' shape (dimensions of 1 apart); mean over a sample's elements
//   bce_with_logits            the same; targets between 0 and 1
//   cross_entropy              output [B, classes, ...], targets int64 [B, ...] (-1, the padding of the loader, is not
//   counted) nll                        the same, of logarithms of probabilities
// Computed in float32 at least. The weight is the number of samples; of cross_entropy and nll that of counted targets.

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
  bool classifies() const { return name_ == config::LossName::kCrossEntropy || name_ == config::LossName::kNll; }
  bool binary() const { return name_ == config::LossName::kBceWithLogits; }

  // Why output and targets do not fit, as a sentence; "": they do.
  std::string mismatch(const at::Tensor& output, const at::Tensor& targets) const;
  Loss operator()(const at::Tensor& output, const at::Tensor& targets) const;
  // Right answers (classes; elements on the right side of one half), or absolute errors: a sample's mean, summed over
  // the batch as float64. What `operator()` divides by is what this is divided by.
  at::Tensor measure(const at::Tensor& output, const at::Tensor& targets) const;
  // Of the measure: "top1", "accuracy" or "mae".
  MetricSpec metric() const;

 private:
  config::LossName name_;
  double label_smoothing_;
};

}  // namespace dtrain::tasks
