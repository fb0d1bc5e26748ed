#include "layers/convolution.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <tuple>
#include <variant>
#include <vector>

#include "kernels/convolution.h"
#include "kernels/winograd.h"
#include "layers/autocast.h"
#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

// How a convolution is computed. kOurGradient: LibTorch's, except for the gradient of its weights.
enum class Way : uint8_t { kLibTorch, kOurGradient, kWinograd };

// Winograd's algorithm pays off where the pixels outweigh the transform of the kernels, and few
// tiles hang over the edge. For the gradient of the weights oneDNN has no kernel of its newer kind
// (brgemm) on CPUs with AVX2 alone, and with AVX-512 it is slower than ours for strides; its kernel
// for 1 x 1 is as fast as ours (bench/cpu_layers).
Way fastest(const at::Tensor& x, const at::Tensor& weight, int64_t stride, int64_t padding) {
  constexpr int64_t kLeastSide = 4, kLeastPixels = 256;
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAny || !x.is_cpu() || x.scalar_type() != at::kFloat ||
      weight.scalar_type() != at::kFloat || !x.is_contiguous(kChannelsLast) || x.numel() == 0 ||
      current_autocast(at::kCPU).enabled) {
    return Way::kLibTorch;
  }
  const bool is_3x3 = weight.size(2) == 3 && weight.size(3) == 3;
  if (is_3x3 && stride == 1 && padding == 1 &&
      kernels::winograd_takes(weight.size(1), weight.size(0)) &&
      std::min(x.size(2), x.size(3)) >= kLeastSide &&
      x.size(0) * x.size(2) * x.size(3) >= kLeastPixels) {
    return Way::kWinograd;
  }
  const bool ours =
      weight.size(2) * weight.size(3) > 1 && (vectors == VectorSet::kAvx2 || stride > 1);
  return ours ? Way::kOurGradient : Way::kLibTorch;
}

class Conv2d : public torch::autograd::Function<Conv2d> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t stride, int64_t padding,
                            bool winograd) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    context->saved_data["winograd"] = winograd;
    context->saved_data["has_bias"] = bias.has_value();
    return winograd ? kernels::winograd_conv2d(x, weight, bias)
                    : at::conv2d(x, weight, bias, stride, padding);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = gradients[0].contiguous(kChannelsLast);
    const int64_t stride = context->saved_data["stride"].toInt(),
                  padding = context->saved_data["padding"].toInt();
    const bool winograd = context->saved_data["winograd"].toBool();
    // A bias that is missing is not counted among the inputs.
    const bool with_bias = context->saved_data["has_bias"].toBool() && context->needs_input_grad(2);
    at::Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) {
      of_x = winograd ? kernels::winograd_input_gradient(dy, weight)
                      : std::get<0>(at::convolution_backward(
                            dy, x, weight, /*bias_sizes=*/std::nullopt, stride, padding,
                            /*dilation=*/1, /*transposed=*/false, /*output_padding=*/0,
                            /*groups=*/1, {true, false, false}));
    }
    if (context->needs_input_grad(1) || with_bias) {
      std::tie(of_weight, of_bias) =
          winograd ? kernels::winograd_weight_gradient(x, dy, with_bias)
                   : kernels::conv2d_weight_gradient(x, weight, dy, stride, padding, with_bias);
    }
    return {of_x, of_weight, of_bias, {}, {}, {}};
  }
};

// Stride and padding, the same in both directions, of a convolution that our loops know.
std::optional<std::pair<int64_t, int64_t>> stride_and_padding(
    const torch::nn::detail::ConvNdOptions<2>& options) {
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  const at::IntArrayRef stride = *options.stride(), dilation = *options.dilation();
  if (padding == nullptr || options.groups() != 1 || dilation != at::IntArrayRef({1, 1}) ||
      stride[0] != stride[1] || (*padding)->at(0) != (*padding)->at(1) ||
      !std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode())) {
    return {};
  }
  return std::pair{stride[0], (*padding)->at(0)};
}

}  // namespace

at::Tensor convolve(torch::nn::Conv2dImpl& conv, const at::Tensor& x) {
  const auto options = stride_and_padding(conv.options);
  const Way way =
      options ? fastest(x, conv.weight, options->first, options->second) : Way::kLibTorch;
  if (way == Way::kLibTorch) return conv.forward(x);
  RECORD_FUNCTION("dtrain::conv2d", std::vector<c10::IValue>({x, conv.weight}));
  return Conv2d::apply(x, conv.weight,
                       conv.bias.defined() ? std::optional(conv.bias) : std::nullopt,
                       options->first, options->second, way == Way::kWinograd);
}

}  // namespace dtrain::layers
