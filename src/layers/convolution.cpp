#include "layers/convolution.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <variant>
#include <vector>

#include "kernels/winograd.h"
#include "layers/autocast.h"
#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

// 3 x 3 with stride 1 and padding 1.
bool has_winograd_shape(const torch::nn::detail::ConvNdOptions<2>& options) {
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  constexpr std::array<int64_t, 2> ones = {1, 1}, threes = {3, 3};
  return padding != nullptr && **padding == ones && *options.stride() == ones &&
         *options.dilation() == ones && *options.kernel_size() == threes && options.groups() == 1 &&
         std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode());
}

// Winograd's algorithm pays off where the pixels outweigh the transform of the kernels, and few
// tiles hang over the edge (bench/cpu_layers).
bool pays_off(const at::Tensor& x) {
  constexpr int64_t kLeastSide = 4, kLeastPixels = 256;
  return std::min(x.size(2), x.size(3)) >= kLeastSide &&
         x.size(0) * x.size(2) * x.size(3) >= kLeastPixels;
}

bool runs_winograd(const torch::nn::Conv2dImpl& conv, const at::Tensor& x) {
  return widest_vectors() != VectorSet::kAny && x.is_cpu() && x.scalar_type() == at::kFloat &&
         conv.weight.scalar_type() == at::kFloat && x.dim() == 4 && x.numel() > 0 &&
         x.is_contiguous(kChannelsLast) && !current_autocast(at::kCPU).enabled &&
         has_winograd_shape(conv.options) &&
         kernels::winograd_takes(conv.weight.size(1), conv.weight.size(0)) && pays_off(x);
}

class WinogradConv2d : public torch::autograd::Function<WinogradConv2d> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return kernels::winograd_conv2d(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = gradients[0].contiguous(kChannelsLast);
    // A bias that is missing is not counted among the inputs.
    const bool with_bias = context->saved_data["has_bias"].toBool() && context->needs_input_grad(2);
    at::Tensor of_x, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_x = kernels::winograd_input_gradient(dy, weight);
    if (context->needs_input_grad(1) || with_bias)
      std::tie(of_weight, of_bias) = kernels::winograd_weight_gradient(x, dy, with_bias);
    return {of_x, of_weight, of_bias};
  }
};

}  // namespace

at::Tensor convolve(torch::nn::Conv2dImpl& conv, const at::Tensor& x) {
  if (!runs_winograd(conv, x)) return conv.forward(x);
  RECORD_FUNCTION("dtrain::conv2d", std::vector<c10::IValue>({x, conv.weight}));
  return WinogradConv2d::apply(x, conv.weight,
                               conv.bias.defined() ? std::optional(conv.bias) : std::nullopt);
}

}  // namespace dtrain::layers
