#include "layers/cross_entropy.h"

#include <ATen/Dispatch.h>
#include <torch/autograd.h>

#include "core/check.h"
#include "kernels/cross_entropy.h"
#include "kernels/launch.h"

namespace dtrain::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename T>
kernels::CrossEntropy<T> problem(const at::Tensor& logits, const at::Tensor& targets,
                                 const at::Tensor& weights, double label_smoothing,
                                 int64_t ignore_index) {
  using Number = typename kernels::CrossEntropy<T>::Number;
  return {.logits = logits.const_data_ptr<T>(),
          .targets = targets.const_data_ptr<int64_t>(),
          .weights = weights.defined() ? weights.const_data_ptr<Number>() : nullptr,
          .samples = logits.size(0),
          .classes = logits.size(1),
          .smoothing = static_cast<Number>(label_smoothing),
          .ignore_index = ignore_index};
}

class CrossEntropyLosses : public torch::autograd::Function<CrossEntropyLosses> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets,
                            const std::optional<at::Tensor>& given_weights, double label_smoothing,
                            int64_t ignore_index) {
    const at::Tensor weights = given_weights.value_or(at::Tensor());
    context->save_for_backward({logits, targets, weights});
    context->saved_data["label_smoothing"] = label_smoothing;
    context->saved_data["ignore_index"] = ignore_index;
    at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(loss_type(logits)));
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, logits.scalar_type(), "cross_entropy", [&] {
          using Number = typename kernels::CrossEntropy<scalar_t>::Number;
          kernels::launch_on(logits.device(), [&](void* stream) {
            return cross_entropy_on_gpu(
                problem<scalar_t>(logits, targets, weights, label_smoothing, ignore_index),
                losses.mutable_data_ptr<Number>(), stream);
          });
        });
    return losses;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& logits = saved[0];
    const at::Tensor of_losses = gradients[0].contiguous();
    at::Tensor gradient = at::empty_like(logits);
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, logits.scalar_type(), "cross_entropy", [&] {
          using Number = typename kernels::CrossEntropy<scalar_t>::Number;
          const kernels::CrossEntropy<scalar_t> of = problem<scalar_t>(
              logits, saved[1], saved[2], context->saved_data["label_smoothing"].toDouble(),
              context->saved_data["ignore_index"].toInt());
          kernels::launch_on(logits.device(), [&](void* stream) {
            return cross_entropy_backward_on_gpu(of, of_losses.const_data_ptr<Number>(),
                                                 gradient.mutable_data_ptr<scalar_t>(), stream);
          });
        });
    return {gradient, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& weights, double label_smoothing, int64_t ignore_index) {
  if (!logits.is_cuda() || logits.dim() != 2) {
    return at::cross_entropy_loss(at_least_float32(logits), targets, weights, at::Reduction::None,
                                  ignore_index, label_smoothing);
  }
  const auto is_there = [&](const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType type) {
    return tensor.sizes() == sizes && tensor.scalar_type() == type &&
           tensor.device() == logits.device();
  };
  DTRAIN_CHECK(
      is_there(targets, logits.sizes().slice(0, 1), at::kLong) &&
          (!weights.defined() || is_there(weights, logits.sizes().slice(1, 1), loss_type(logits))),
      logits.scalar_type(), " logits of shape ", logits.sizes(), " do not fit ",
      targets.scalar_type(), " targets of shape ", targets.sizes(), ", or the weights of classes");
  return CrossEntropyLosses::apply(
      logits.contiguous(), targets.contiguous(),
      weights.defined() ? std::optional(weights.contiguous()) : std::nullopt, label_smoothing,
      ignore_index);
}

}  // namespace dtrain::layers
