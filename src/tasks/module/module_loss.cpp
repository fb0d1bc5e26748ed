#include "tasks/module/module_loss.h"

#include <algorithm>

#include "core/error.h"
#include "layers/cross_entropy.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kNotCounted = -1;  // the loader pads targets with it

std::vector<int64_t> without_ones(at::IntArrayRef sizes) {
  std::vector<int64_t> rest;
  std::ranges::copy_if(sizes, std::back_inserter(rest), [](int64_t size) { return size != 1; });
  return rest;
}

at::Tensor per_sample_mean(const at::Tensor& elements) {
  return elements.reshape({elements.size(0), -1}).mean(1);
}

}  // namespace

ModuleLoss::ModuleLoss(config::LossName name, double label_smoothing)
    : name_(name), label_smoothing_(label_smoothing) {
  if (label_smoothing_ > 0 && name_ != config::LossName::kCrossEntropy) {
    throw ConfigError(str("train.label_smoothing: needs task.loss cross_entropy, not ", name_));
  }
}

std::string ModuleLoss::mismatch(const at::Tensor& output, const at::Tensor& targets) const {
  const std::string shapes =
      str("the output is ", shape_text(output.sizes()), ", the targets are ",
          c10::toString(targets.scalar_type()), " ", shape_text(targets.sizes()));
  if (!output.is_floating_point()) {
    return str("the output is ", c10::toString(output.scalar_type()),
               "; a loss needs floating point");
  }
  if (classifies()) {
    if (targets.scalar_type() != at::kLong)
      return str(name_, " needs classes as int64 targets: ", shapes);
    std::vector<int64_t> without_classes = output.sizes().vec();
    if (output.dim() >= 2) without_classes.erase(without_classes.begin() + 1);
    if (output.dim() < 2 || without_classes != targets.sizes().vec()) {
      return str(name_,
                 " needs an output [samples, classes, ...] for targets [samples, ...]: ", shapes);
    }
    return output.size(1) < 2 ? str(name_, " needs two classes or more: ", shapes) : "";
  }
  if (without_ones(output.sizes()) != without_ones(targets.sizes())) {
    return str(
        name_, " needs an output of the targets' shape: ", shapes,
        targets.scalar_type() == at::kLong ? "; for classes use --task.loss cross_entropy" : "");
  }
  return "";
}

// [B, ...], of the targets' shape
at::Tensor ModuleLoss::class_losses(const at::Tensor& output, const at::Tensor& targets) const {
  if (name_ == config::LossName::kNll) {
    return at::nll_loss_nd(at_least_float32(output), targets, {}, at::Reduction::None, kNotCounted);
  }
  return layers::cross_entropy(output, targets, {}, label_smoothing_, kNotCounted);
}

Loss ModuleLoss::operator()(const at::Tensor& output, const at::Tensor& targets) const {
  if (classifies()) {
    const at::Tensor each = class_losses(output, targets);
    Loss loss = sample_loss(each.dim() == 1 ? each : each.reshape({each.size(0), -1}).sum(1));
    loss.weight = targets.ne(kNotCounted).sum(at::kDouble);
    return loss;
  }
  const at::Tensor logits = at_least_float32(output);
  const at::Tensor wanted = targets.to(logits.scalar_type());
  const at::Tensor given = logits.reshape(wanted.sizes());
  constexpr auto kNone = at::Reduction::None;
  const auto elements = [&] {
    using enum config::LossName;
    if (name_ == kMse) return at::mse_loss(given, wanted, kNone);
    if (name_ == kL1) return at::l1_loss(given, wanted, kNone);
    if (name_ == kSmoothL1) return at::smooth_l1_loss(given, wanted, kNone, /*beta=*/1.0);
    return at::binary_cross_entropy_with_logits(given, wanted, {}, {}, kNone);
  };
  return sample_loss(per_sample_mean(elements()));
}

at::Tensor ModuleLoss::measure(const at::Tensor& output, const at::Tensor& targets) const {
  if (classifies()) return output.argmax(1).eq(targets).sum().to(at::kDouble);
  const at::Tensor given = output.reshape(targets.sizes()).to(at::kDouble);
  const at::Tensor wanted = targets.to(at::kDouble);
  if (binary()) return per_sample_mean(given.gt(0).eq(wanted.gt(0.5)).to(at::kDouble)).sum();
  return per_sample_mean((given - wanted).abs()).sum();
}

MetricSpec ModuleLoss::metric() const {
  if (classifies()) return share_metric("top1");
  if (binary()) return share_metric("accuracy");
  return {.name = "mae", .unit = "absolute error"};
}

}  // namespace dtrain::tasks
