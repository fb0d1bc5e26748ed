#include "train/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "kernels/launch.h"
#include "kernels/unscale.h"
#include "train/clip.h"

namespace dtrain::train {

GradScaler::GradScaler(const config::Amp& options, bool enabled, at::Device device,
                       at::ScalarType parameter_dtype)
    : options_(options), enabled_(enabled) {
  const auto on_device = at::TensorOptions(device);
  scale_ = at::full({}, enabled ? options.init_scale : 1.0, on_device.dtype(at::kFloat));
  growth_tracker_ = at::zeros({}, on_device.dtype(at::kInt));
  found_inf_ = at::zeros({}, on_device.dtype(at::kFloat));
  taken_ = at::zeros({}, on_device.dtype(at::kFloat));
  factor_ = at::zeros({}, on_device.dtype(at::kDouble));
  weight_ = at::zeros({}, on_device.dtype(at::kDouble));
  factor32_ = at::zeros({}, on_device.dtype(at::kFloat));
  norm_ = at::zeros({}, on_device.dtype(parameter_dtype));
  skipped_ = at::zeros({}, on_device.dtype(at::kLong));
}

at::Tensor GradScaler::first_gradient(at::ScalarType dtype, int64_t power_of_two) const {
  return scale_.to(dtype) * std::ldexp(1.0, static_cast<int>(-power_of_two));
}

kernels::ScalerNumbers GradScaler::numbers() const {
  return {.scale = scale_.mutable_data_ptr<float>(),
          .growth_tracker = growth_tracker_.mutable_data_ptr<int32_t>(),
          .found_inf = found_inf_.mutable_data_ptr<float>(),
          .taken = taken_.mutable_data_ptr<float>(),
          .skipped = skipped_.mutable_data_ptr<int64_t>(),
          .weight = weight_.const_data_ptr<double>(),
          .factor = factor_.mutable_data_ptr<double>(),
          .factor32 = factor32_.mutable_data_ptr<float>()};
}

void GradScaler::unscale(const std::vector<at::Tensor>& flat, const at::Tensor& weight_sum,
                         int64_t power_of_two) {
  const at::NoGradGuard no_grad;
  weight_ = weight_sum.to(at::kDouble);
  const double power = std::ldexp(1.0, static_cast<int>(power_of_two));
  const bool all_single = std::ranges::all_of(
      flat, [](const at::Tensor& gradient) { return gradient.scalar_type() == at::kFloat; });
  if (scale_.is_cuda() && all_single && norm_.scalar_type() == at::kFloat &&
      flat.size() <= kernels::FlatGradients::kMost)
    return unscale_in_one_pass(flat, power);
  if (scale_.is_cpu()) {
    kernels::find_factor(numbers(), power);
  } else {
    kernels::launch_on(scale_.device(), [&](void* stream) {
      return kernels::find_factor_on_gpu(numbers(), power, stream);
    });
  }
  std::vector<at::Tensor> single;
  for (const at::Tensor& gradient : flat) {
    if (gradient.scalar_type() == at::kFloat) {
      single.push_back(gradient);
    } else {  // LibTorch's kernel takes a float32 factor only
      found_inf_.copy_(at::maximum(found_inf_, at::isfinite(gradient).all().logical_not_()));
      gradient.mul_(factor_);
    }
  }
  if (!single.empty())
    at::_amp_foreach_non_finite_check_and_unscale_(single, found_inf_, factor32_);
  norm_.copy_(norm_of(flat, norm_.scalar_type()));
  taken_.fill_(1).sub_(found_inf_);
}

void GradScaler::unscale_in_one_pass(const std::vector<at::Tensor>& flat, double power) {
  kernels::FlatGradients of;
  for (const at::Tensor& gradient : flat)
    of.add(gradient.mutable_data_ptr<float>(), gradient.numel());
  if (!partial_.defined() || partial_.numel() < of.blocks())
    partial_ = at::empty({of.blocks()}, scale_.options().dtype(at::kDouble));
  kernels::launch_on(scale_.device(), [&](void* stream) {
    return kernels::unscale_on_gpu(of, numbers(), power, partial_.mutable_data_ptr<double>(),
                                   norm_.mutable_data_ptr<float>(), stream);
  });
}

void GradScaler::update() {
  const kernels::ScalerRule rule{enabled_, options_.growth, options_.backoff,
                                 options_.growth_interval};
  if (scale_.is_cpu()) return kernels::end_scaled_step(numbers(), rule);
  kernels::launch_on(scale_.device(), [&](void* stream) {
    return kernels::end_scaled_step_on_gpu(numbers(), rule, stream);
  });
}

std::vector<at::Tensor> GradScaler::tensors() const {
  return {scale_, growth_tracker_, found_inf_, taken_, factor_, factor32_, norm_, skipped_};
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
