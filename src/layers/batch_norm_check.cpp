#include "layers/batch_norm_check.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/autograd.h>

#include <exception>
#include <vector>

#include "kernels/batch_norm_gpu.h"
#include "layers/autocast.h"
#include "layers/lengths.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::layers::batch_norm {
namespace {

using namespace kernels::batch_norm;
using blocks::Runner;
using kernels::Activation;

struct Case {
  std::vector<int64_t> sizes;
  bool channels_last;
  Activation activation;
  bool residual = false, max_pool = false, lengths = false;
};

// Groups of 16 bytes and single elements, several blocks, channels last and not; odd images;
// sequences with lengths. After a residual no ReLU6: an output may be rounded to 6 in half
// precision, and then has no gradient.
std::vector<Case> cases() {
  return {
      {.sizes = {4, 16, 40, 26},
       .channels_last = true,
       .activation = Activation::kReLU,
       .max_pool = true},
      {.sizes = {3, 10, 7, 9},
       .channels_last = true,
       .activation = Activation::kReLU6,
       .max_pool = true},
      {.sizes = {3, 72, 19, 17},
       .channels_last = true,
       .activation = Activation::kReLU,
       .residual = true},
      {.sizes = {3, 10, 7, 9},
       .channels_last = true,
       .activation = Activation::kNone,
       .residual = true},
      {.sizes = {64, 24}, .channels_last = true, .activation = Activation::kNone},
      {.sizes = {5, 6, 8, 16},
       .channels_last = false,
       .activation = Activation::kReLU,
       .residual = true},
      {.sizes = {5, 6, 7, 9}, .channels_last = false, .activation = Activation::kReLU},
      {.sizes = {6, 12, 33},
       .channels_last = false,
       .activation = Activation::kReLU,
       .lengths = true},
  };
}

struct Given {
  at::Tensor x, residual, lengths, weight, bias, dy;
};

struct Result {
  at::Tensor y, mean, variance, x_gradient, residual_gradient, weight_gradient, bias_gradient;
  at::Tensor fixed_mean, fixed_invstd, fixed_count;  // from the running statistics after the step
};

struct Part {
  const char* name;
  at::Tensor Result::*of;
};
constexpr Part kParts[] = {{"the output", &Result::y},
                           {"the running mean", &Result::mean},
                           {"the running variance", &Result::variance},
                           {"the gradient of the input", &Result::x_gradient},
                           {"the gradient of the residual", &Result::residual_gradient},
                           {"the gradient of the weight", &Result::weight_gradient},
                           {"the gradient of the bias", &Result::bias_gradient},
                           {"the fixed mean", &Result::fixed_mean},
                           {"the fixed deviation", &Result::fixed_invstd},
                           {"the fixed count", &Result::fixed_count}};

constexpr double kMomentum = 0.25, kEps = 1e-5;

// Values in [-2, 3) that look random and are the same everywhere. Generators of random numbers
// belong to the run.
at::Tensor scattered(at::IntArrayRef sizes, double seed) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const at::Tensor hashed = (at::arange(count, at::kDouble) * 12.9898 + seed).sin() * 43758.5453;
  return ((hashed - hashed.floor()) * 5 - 2).view(sizes);
}

Given made(const Case& c, at::Device device, at::ScalarType dtype) {
  const auto tensor = [&](at::IntArrayRef sizes, double seed) {
    const bool images = c.channels_last && sizes.size() == 4;
    return scattered(sizes, seed)
        .to(device, dtype)
        .contiguous(images ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  };
  const auto numbers =
      at::TensorOptions(device).dtype(dtype == at::kDouble ? at::kDouble : at::kFloat);
  std::vector<int64_t> output = c.sizes;
  for (size_t d = 2; d < output.size() && c.max_pool; ++d) output[d] /= 2;
  Given given;
  given.x = tensor(c.sizes, 1);
  given.dy = tensor(output, 2);
  if (c.residual) given.residual = tensor(c.sizes, 3);
  if (c.lengths) given.lengths = at::tensor({33, 0, 1, 20, 40, 7}, at::kLong).to(device);
  given.weight = at::linspace(-0.5, 1.5, c.sizes[1], numbers);
  given.bias = at::linspace(-0.3, 0.9, c.sizes[1], numbers);
  return given;
}

// What BatchNormImpl does in a training step, with running statistics of 0 and 1 before it.
// `in_parts`: as where sums are added up over ranks.
Result own(const Runner& runner, const Case& c, const Given& given, bool in_parts) {
  Result result;
  result.mean = at::zeros_like(given.weight);
  result.variance = at::ones_like(given.weight);
  const at::Tensor batches = at::zeros({}, given.x.options().dtype(at::kLong));
  const Running running = {result.mean, result.variance, batches, kMomentum, kEps};
  const Statistics of_batch =
      in_parts ? gpu::statistics(runner, gpu::sums(runner, given.x, given.lengths), running)
               : gpu::statistics_of(runner, given.x, given.lengths, running);
  const Statistics fixed = gpu::fixed_statistics(runner, running);
  result.fixed_mean = fixed.mean;
  result.fixed_invstd = fixed.invstd;
  result.fixed_count = fixed.count;
  const Affine affine = {given.weight, given.bias, of_batch.mean, of_batch.invstd};
  const NormOutput out = gpu::normalize(runner, given.x, given.lengths, affine,
                                        {c.activation, given.residual, c.max_pool});
  result.y = out.y;
  const Saved saved = {given.x,    given.lengths, affine, c.residual ? out.y : at::Tensor(),
                       out.chosen, c.activation};
  at::Tensor dy = given.dy;
  NormGradients gradients;
  if (in_parts) {
    const at::Tensor sums = gpu::gradient_sums(runner, saved, dy);
    gradients = {gpu::parameter_gradients(runner, saved, sums),
                 gpu::input_gradient(runner, saved, dy, sums, of_batch.count)};
  } else {
    gradients = gpu::gradients(runner, saved, dy, of_batch.count, /*of_input=*/true);
  }
  result.weight_gradient = gradients.parameters.weight;
  result.bias_gradient = gradients.parameters.bias;
  result.x_gradient = gradients.input;
  if (c.residual) result.residual_gradient = dy;
  return result;
}

// Batch norm by its definition, over all dimensions but the second, and what it makes of the
// running statistics. Made of basic operators: at::batch_norm() takes cuDNN on a GPU, in float64
// and channels last a configuration of it that nothing else uses.
at::Tensor normalized(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      Result& result) {
  std::vector<int64_t> others, per_channel(static_cast<size_t>(x.dim()), 1);
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) others.push_back(d);
  }
  per_channel[1] = x.size(1);
  const at::Tensor mean = x.mean(others, /*keepdim=*/true), offset = x - mean;
  const at::Tensor variance = offset.square().mean(others, /*keepdim=*/true);
  const auto values = static_cast<double>(x.numel() / x.size(1));
  result.mean = kMomentum * mean.detach().flatten();
  result.variance =
      (1 - kMomentum) + kMomentum * values / (values - 1) * variance.detach().flatten();
  result.fixed_mean = result.mean;
  result.fixed_invstd = (result.variance + kEps).rsqrt();
  result.fixed_count = at::ones_like(result.mean[0]);
  return offset * (variance + kEps).rsqrt() * weight.view(per_channel) + bias.view(per_channel);
}

Result by_definition(const Case& c, const Given& given) {
  const at::AutoGradMode with_gradients(true);
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.detach().to(at::kDouble, false, /*copy=*/true).requires_grad_()
                            : tensor;
  };
  const at::Tensor x = leaf(given.x), residual = leaf(given.residual), weight = leaf(given.weight),
                   bias = leaf(given.bias);
  Result result;
  const auto activated = [&](const at::Tensor& values) {
    return c.activation == Activation::kReLU    ? at::relu(values)
           : c.activation == Activation::kReLU6 ? at::hardtanh(values, 0, 6)
                                                : values;
  };
  if (c.lengths) {  // batch norm of the valid positions [N, C], which are then put in their places
    const at::Tensor valid = valid_positions(given.lengths, given.x.size(2));
    const at::Tensor rows =
        activated(normalized(x.transpose(1, 2).index({valid}), weight, bias, result));
    result.y = at::zeros_like(x).transpose(1, 2).index_put({valid}, rows).transpose(1, 2);
  } else {
    at::Tensor y = normalized(x, weight, bias, result);
    if (c.residual) y = y + residual;
    result.y = c.max_pool ? at::max_pool2d(activated(y), 2) : activated(y);
  }
  std::vector<at::Tensor> inputs = {x, weight, bias};
  if (c.residual) inputs.push_back(residual);
  const auto gradients = torch::autograd::grad({result.y}, inputs, {given.dy.to(at::kDouble)});
  result.x_gradient = gradients[0];
  result.weight_gradient = gradients[1];
  result.bias_gradient = gradients[2];
  if (c.residual) result.residual_gradient = gradients[3];
  return result;
}

// As a share of the largest value; NaN if there is one.
double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor worst = (a.detach().to(at::kDouble) - b.detach()).abs().max();
  return (worst / b.detach().abs().max().clamp_min(1e-3)).item<double>();
}

// Rounding of the results, and some sums of hundreds of values in float32.
double tolerance(at::ScalarType dtype) {
  return dtype == at::kHalf       ? 0x1p-9
         : dtype == at::kBFloat16 ? 0x1p-6
         : dtype == at::kDouble   ? 1e-11
                                  : 2e-5;
}

std::optional<std::string> disagreement_in(const Runner& runner, const Case& c, at::Device device,
                                           at::ScalarType dtype) {
  const Given given = made(c, device, dtype);
  const Result expected = by_definition(c, given);
  for (const bool in_parts : {false, true}) {
    const Result here = own(runner, c, given, in_parts);
    for (const auto& [name, part] : kParts) {
      if (!(expected.*part).defined()) continue;
      const double by = difference(here.*part, expected.*part);
      if (by <= tolerance(dtype)) continue;
      return dtrain::str(name, " of an input ", at::IntArrayRef(c.sizes),
                         c.channels_last ? " with channels last" : "",
                         in_parts ? ", with sums over ranks," : "", " differs by ", by,
                         " of its largest value");
    }
  }
  return std::nullopt;
}

// Waits for it.
bool still_works(at::Device device) noexcept {
  if (device.is_cpu()) return true;
  try {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

constexpr int kCudaErrorMemoryAllocation = 2;

}  // namespace

bool prevents_comparison(const c10::Error& error, bool device_works) {
  const auto* of_device = dynamic_cast<const c10::AcceleratorError*>(&error);
  const bool no_memory =
      dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      (of_device != nullptr && of_device->get_error_code() == kCudaErrorMemoryAllocation) ||
      says_out_of_memory(error.what_without_backtrace());
  return device_works && !no_memory;
}

std::optional<std::string> disagreement(const Runner& runner, at::Device device,
                                        at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const AutocastGuard no_autocast({.device = device.type(), .enabled = false});
  for (const Case& c : cases()) {
    try {
      if (std::optional<std::string> found = disagreement_in(runner, c, device, dtype))
        return found;
    } catch (const c10::Error& e) {
      if (!prevents_comparison(e, still_works(device))) throw;
      return "they cannot be compared with the definition of batch norm (" +
             torch_message(e.what_without_backtrace()) + ")";
    }
  }
  return std::nullopt;
}

}  // namespace dtrain::layers::batch_norm
