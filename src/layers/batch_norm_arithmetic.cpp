#include "layers/batch_norm_arithmetic.h"

#include "core/check.h"
#include "kernels/batch_norm_cpu.h"
#include "kernels/batch_norm_gpu.h"
#include "layers/lengths.h"
#include "layers/norm_kernels.h"

namespace dtrain::layers::batch_norm {
namespace {

namespace cpu = kernels::batch_norm::cpu;
namespace gpu = kernels::batch_norm::gpu;

// ---- padded sequences, with LibTorch's operators ------------------------------------------------

at::Tensor valid_mask(const at::Tensor& x, const at::Tensor& lengths,
                      at::ScalarType dtype) {  // [B, 1, T]
  return valid_positions(lengths, x.size(2)).unsqueeze(1).to(dtype);
}

at::Tensor per_channel(const at::Tensor& values) { return values.view({1, -1, 1}); }

}  // namespace

bool is_fused(const at::Tensor& x) { return x.is_cpu() || norm_runner(x) != nullptr; }

bool can_pool(const at::Tensor& x) {
  return norm_runner(x) != nullptr ? gpu::can_pool(x) : x.is_cpu() && cpu::can_pool(x);
}

at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths) {
  if (const auto* runner = norm_runner(x)) return gpu::sums(*runner, x, lengths);
  if (x.is_cpu()) return cpu::sums(x, lengths);
  if (!lengths.defined()) {
    // Subtracted again below; keeps the inverse of a zero variance finite
    constexpr double kEps = 1e-5;
    const auto [mean, invstd] = at::batch_norm_stats(x, kEps);
    const at::Tensor wide = mean.to(at::kDouble);
    const at::Tensor variance = (invstd.to(at::kDouble).pow(-2) - kEps).clamp_min(0);
    const auto count = static_cast<double>(x.numel() / x.size(1));
    return at::cat(
        {at::full({1}, count, wide.options()), wide * count, (variance + wide * wide) * count});
  }
  const at::Tensor mask = valid_mask(x, lengths, at::kDouble);
  const at::Tensor count = mask.sum(), sum = (x * mask).sum(at::IntArrayRef({0, 2}));
  const at::Tensor mean = sum / count.clamp_min(1);
  const at::Tensor offset = (x - per_channel(mean)) * mask;
  return at::cat(
      {count.view({1}), sum, (offset * offset).sum(at::IntArrayRef({0, 2})) + mean * sum});
}

Statistics statistics(const at::Tensor& x, const at::Tensor& sums, const Running& running) {
  if (const auto* runner = norm_runner(x)) return gpu::statistics(*runner, sums, running);
  const int64_t channels = running.mean.numel();
  const at::ScalarType dtype = running.mean.scalar_type();
  const at::Tensor count = sums[0].clamp_min(1), mean = sums.slice(0, 1, 1 + channels) / count;
  const at::Tensor variance = (sums.slice(0, 1 + channels) / count - mean * mean).clamp_min(0);
  const at::Tensor unbiased = variance * (count / (count - 1).clamp_min(1));
  // Computed on the device, so the host does not wait.
  const at::Tensor momentum = (count > 1).to(dtype) * running.momentum;
  const Statistics result = {mean.to(dtype), (variance + running.eps).rsqrt().to(dtype), count};
  running.mean.lerp_(result.mean, momentum);
  running.variance.lerp_(unbiased.to(dtype), momentum);
  running.batches.add_(1);
  return result;
}

Statistics statistics_of(const at::Tensor& x, const at::Tensor& lengths, const Running& running) {
  if (const auto* runner = norm_runner(x)) return gpu::statistics_of(*runner, x, lengths, running);
  return statistics(x, sums(x, lengths), running);
}

Statistics fixed_statistics(const at::Tensor& x, const Running& running) {
  if (const auto* runner = norm_runner(x)) return gpu::fixed_statistics(*runner, running);
  return {running.mean.clone(), (running.variance + running.eps).rsqrt(),
          at::ones({}, running.mean.options().dtype(at::kDouble))};
}

NormOutput normalize(const at::Tensor& x, const at::Tensor& lengths, const Affine& affine,
                     const Epilogue& epilogue) {
  if (const auto* runner = norm_runner(x))
    return gpu::normalize(*runner, x, lengths, affine, epilogue);
  if (x.is_cpu()) return cpu::normalize(x, lengths, affine, epilogue);
  DTRAIN_CHECK(epilogue.activation == Activation::kNone && !epilogue.residual.defined() &&
                   !epilogue.max_pool,
               "LibTorch's kernels only normalize");
  const auto& [weight, bias, mean, invstd] = affine;
  if (!lengths.defined())
    return {at::batch_norm_elemt(x, weight, bias, mean, invstd, /*eps=*/0), {}};
  const at::Tensor y = (x - per_channel(mean)) * per_channel(weight * invstd) + per_channel(bias);
  return {(y * valid_mask(x, lengths, mean.scalar_type())).to(x.scalar_type()), {}};
}

at::Tensor gradient_sums(const Saved& saved, at::Tensor& dy) {
  const auto& [x, lengths, affine, y, chosen, activation] = saved;
  if (const auto* runner = norm_runner(x)) return gpu::gradient_sums(*runner, saved, dy);
  if (x.is_cpu()) return cpu::gradient_sums(saved, dy);
  DTRAIN_CHECK(activation == Activation::kNone && !chosen.defined(),
               "LibTorch's kernels have no epilogue");
  if (!lengths.defined()) {
    const auto [sum_dy, sum_dy_xmu, dw, db] = at::batch_norm_backward_reduce(
        dy, x, affine.mean, affine.invstd, affine.weight, /*input_g=*/true,
        /*weight_g=*/false, /*bias_g=*/false);
    return at::cat({sum_dy, sum_dy_xmu}).to(at::kDouble);
  }
  const at::Tensor valid = dy * valid_mask(x, lengths, affine.mean.scalar_type());
  return at::cat({valid.sum(at::IntArrayRef({0, 2})),
                  (valid * (x - per_channel(affine.mean))).sum(at::IntArrayRef({0, 2}))})
      .to(at::kDouble);
}

ParameterGradients parameter_gradients(const Saved& saved, const at::Tensor& gradient_sums) {
  if (const auto* runner = norm_runner(saved.x))
    return gpu::parameter_gradients(*runner, saved, gradient_sums);
  const int64_t channels = saved.x.size(1);
  const at::ScalarType dtype = saved.affine.weight.scalar_type();
  return {(gradient_sums.slice(0, channels) * saved.affine.invstd).to(dtype),
          gradient_sums.slice(0, 0, channels).to(dtype, false, /*copy=*/true)};
}

at::Tensor input_gradient(const Saved& saved, const at::Tensor& dy, const at::Tensor& gradient_sums,
                          const at::Tensor& count) {
  const auto& [x, lengths, affine, y, chosen, activation] = saved;
  if (const auto* runner = norm_runner(x))
    return gpu::input_gradient(*runner, saved, dy, gradient_sums, count);
  if (x.is_cpu()) return cpu::input_gradient(saved, dy, gradient_sums, count);
  const at::Tensor& mean = affine.mean;
  const int64_t channels = x.size(1);
  const at::Tensor sum_dy = gradient_sums.slice(0, 0, channels),
                   sum_dy_xmu = gradient_sums.slice(0, channels);
  if (!lengths.defined()) {
    return at::batch_norm_backward_elemt(
        dy, x, mean, affine.invstd, affine.weight, sum_dy.to(mean.scalar_type()),
        sum_dy_xmu.to(mean.scalar_type()), count.to(at::kInt).view({1}));
  }
  const at::Tensor wide = affine.invstd.to(at::kDouble);
  const auto broadcast = [&](const at::Tensor& values) {
    return per_channel(values.to(mean.scalar_type()));
  };
  const at::Tensor slope = broadcast(sum_dy_xmu / count * wide * wide),
                   shift = broadcast(sum_dy / count);
  const at::Tensor dx =
      (dy - shift - (x - broadcast(mean)) * slope) * broadcast(affine.weight * affine.invstd);
  return (dx * valid_mask(x, lengths, mean.scalar_type())).to(x.scalar_type());
}

NormGradients gradients(const Saved& saved, at::Tensor& dy, const at::Tensor& count,
                        bool of_input) {
  if (const auto* runner = norm_runner(saved.x))
    return gpu::gradients(*runner, saved, dy, count, of_input);
  const at::Tensor sums = gradient_sums(saved, dy);
  return {parameter_gradients(saved, sums),
          of_input ? input_gradient(saved, dy, sums, count) : at::Tensor()};
}

}  // namespace dtrain::layers::batch_norm
