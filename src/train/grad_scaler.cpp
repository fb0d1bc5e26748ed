#include "train/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "train/clip.h"

namespace dtrain::train {

GradScaler::GradScaler(const config::Amp& options, bool enabled, at::Device device,
                       at::ScalarType parameter_dtype)
    : options_(options), enabled_(enabled) {
  const auto on_device = at::TensorOptions(device);
  scale_ = at::full({}, enabled ? options.init_scale : 1.0, on_device.dtype(at::kFloat));
  growth_tracker_ = at::zeros({}, on_device.dtype(at::kInt));
  found_inf_ = at::zeros({}, on_device.dtype(at::kFloat));
  overflow_ = at::zeros({}, on_device.dtype(at::kFloat));
  norm_ = at::zeros({}, on_device.dtype(parameter_dtype));
  skipped_ = at::zeros({}, on_device.dtype(at::kLong));
}

at::Tensor GradScaler::scale_loss(const at::Tensor& loss_sum, int64_t power_of_two) const {
  return loss_sum * (scale_ * std::ldexp(1.0, static_cast<int>(-power_of_two)));
}

void GradScaler::unscale(const std::vector<at::Tensor>& flat, const at::Tensor& weight_sum,
                         int64_t power_of_two) {
  const at::NoGradGuard no_grad;
  // In float64, because scale × weight may overflow float32. The division comes first: the power of
  // two stays exact.
  const at::Tensor divisor = scale_.to(at::kDouble) * weight_sum.to(at::kDouble);
  const at::Tensor factor =
      divisor.reciprocal().mul_(std::ldexp(1.0, static_cast<int>(power_of_two)));
  const at::Tensor factor32 = factor.to(at::kFloat);
  found_inf_.copy_(at::isfinite(factor32).logical_not_());
  std::vector<at::Tensor> single;
  for (const at::Tensor& gradient : flat) {
    if (gradient.scalar_type() == at::kFloat) {
      single.push_back(gradient);
    } else {  // LibTorch's kernel takes a float32 factor only
      found_inf_.copy_(at::maximum(found_inf_, at::isfinite(gradient).all().logical_not_()));
      gradient.mul_(factor);
    }
  }
  if (!single.empty()) at::_amp_foreach_non_finite_check_and_unscale_(single, found_inf_, factor32);
  norm_.copy_(norm_of(flat, norm_.scalar_type()));
  overflow_ = found_inf_ * (weight_sum != 0);
}

void GradScaler::update() {
  if (enabled_) {
    at::_amp_update_scale_(scale_, growth_tracker_, overflow_, options_.growth, options_.backoff,
                           options_.growth_interval);
  }
  skipped_.add_(overflow_.to(at::kLong));
}

GradScaler::State GradScaler::state() const {
  return {scale_.item<double>(), growth_tracker_.item<int64_t>(), skipped_.item<int64_t>()};
}

void GradScaler::load(const State& state) {
  scale_.fill_(enabled_ ? state.scale : 1.0);
  growth_tracker_.fill_(state.growth_tracker);
  skipped_.fill_(state.skipped);
}

int64_t loss_power_of_two(double planned_weight, int ranks) {
  int exponent = 0;
  const double mantissa = std::frexp(planned_weight / ranks, &exponent);  // 1/2 <= mantissa < 1
  return std::max(mantissa == 0.5 ? exponent - 1 : exponent, 0);
}

}  // namespace dtrain::train
