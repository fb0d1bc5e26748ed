#include "layers/depthwise.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <vector>

#include "core/check.h"
#include "kernels/depthwise.h"
#include "layers/autocast.h"

namespace dtrain::layers {
namespace {

namespace depthwise = kernels::depthwise;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

class DepthwiseConv : public torch::autograd::Function<DepthwiseConv> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            int64_t stride) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    return depthwise::convolve(depthwise::shape_of(x.sizes(), stride), x,
                               depthwise::by_tap(weight));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = gradients[0].contiguous(kChannelsLast);
    const depthwise::DepthwiseShape shape =
        depthwise::shape_of(x.sizes(), context->saved_data["stride"].toInt());
    return {context->needs_input_grad(0)
                ? depthwise::input_gradient(shape, dy, depthwise::by_tap(weight))
                : at::Tensor(),
            context->needs_input_grad(1) ? depthwise::weight_gradient(shape, x, dy) : at::Tensor(),
            at::Tensor()};
  }
};

bool has_loops(const at::Tensor& x, const at::Tensor& weight) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         x.is_contiguous(kChannelsLast) && weight.is_contiguous() &&
         !current_autocast(at::kCPU).enabled;
}

}  // namespace

at::Tensor depthwise_conv(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  DTRAIN_CHECK(x.dim() == 4 && weight.sizes() == at::IntArrayRef({x.size(1), 1, 3, 3}) &&
                   (stride == 1 || stride == 2),
               "depthwise convolution of ", x.sizes(), " with ", weight.sizes(), " and stride ",
               stride);
  if (!has_loops(x, weight))
    return at::conv2d(x, weight, {}, stride, /*padding=*/1, /*dilation=*/1, x.size(1));
  RECORD_FUNCTION("dtrain::depthwise_conv", std::vector<c10::IValue>({x, weight}));
  return DepthwiseConv::apply(x, weight, stride);
}

}  // namespace dtrain::layers
