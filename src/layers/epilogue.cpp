#include "layers/epilogue.h"

#include <torch/autograd.h>

#include "kernels/batch_norm_cpu.h"

namespace dtrain::layers {
namespace {

namespace batch_norm = kernels::batch_norm;

class MaxPool : public torch::autograd::Function<MaxPool> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            int64_t activation) {
    const batch_norm::NormOutput out =
        batch_norm::cpu::pool(x, static_cast<Activation>(activation));
    ctx->save_for_backward({out.chosen});
    ctx->saved_data["sizes"] = x.sizes();
    return out.y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const std::vector<int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    const at::Tensor dy = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    return {batch_norm::cpu::pool_gradient(dy, ctx->get_saved_variables()[0], sizes), {}};
  }
};

at::Tensor activate(at::Tensor x, Activation activation) {
  if (activation == Activation::kReLU) return at::relu_(x);
  return activation == Activation::kReLU6 ? at::relu6_(x) : x;
}

}  // namespace

at::Tensor apply_epilogue(const Epilogue& epilogue, at::Tensor x) {
  if (epilogue.residual.defined()) x = x + epilogue.residual;
  return epilogue.max_pool ? max_pool(x, epilogue.activation) : activate(x, epilogue.activation);
}

at::Tensor max_pool(const at::Tensor& x, Activation activation) {
  if (x.is_cpu() && batch_norm::cpu::can_pool(x))
    return MaxPool::apply(x, static_cast<int64_t>(activation));
  return at::max_pool2d(activate(x, activation), 2);
}

}  // namespace dtrain::layers
