#include "layers/additive_attention.h"

#include <torch/autograd.h>

#include "core/check.h"
#include "kernels/additive_attention.h"
#include "kernels/intra_op.h"
#include "kernels/launch.h"

namespace dtrain::layers {
namespace {

using kernels::AttentionProblem;
using kernels::kExponentLimit;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType precision_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Rows as additive_attention_body.inc expects them.
at::Tensor prepared(const at::Tensor& rows) {
  if (rows.scalar_type() == at::kDouble) return rows.contiguous();
  return rows.mul(2).clamp_(-kExponentLimit, kExponentLimit).exp_().contiguous();
}

struct Tensors {
  at::Tensor keys, queries, v, order, lengths;
};

template <typename Number>
AttentionProblem<Number> problem(const Tensors& of) {
  return {.steps = of.keys.size(0),
          .samples = of.keys.size(1),
          .hidden = of.keys.size(2),
          .keys = of.keys.const_data_ptr<Number>(),
          .queries = of.queries.const_data_ptr<Number>(),
          .v = of.v.const_data_ptr<Number>(),
          .order = of.order.const_data_ptr<int64_t>(),
          .lengths = of.lengths.const_data_ptr<int64_t>()};
}

// {nll [B], residual [B, T, T]}
template <typename Number>
std::pair<at::Tensor, at::Tensor> forward(const Tensors& of) {
  const AttentionProblem<Number> p = problem<Number>(of);
  const at::Tensor residual = at::empty({p.samples, p.steps, p.steps}, of.keys.options());
  auto* residual_data = residual.mutable_data_ptr<Number>();
  if (of.keys.is_cuda()) {
    const c10::DeviceGuard guard(of.keys.device());
    kernels::check_fits_gpu(p.samples, p.steps, shared_bytes_of(p));
    const at::Tensor nll = at::empty({p.samples, p.steps}, of.keys.options());
    kernels::launch_on(of.keys.device(), [&](void* stream) {
      return attention_forward_on_gpu(p, residual_data, nll.mutable_data_ptr<Number>(), stream);
    });
    return {nll.sum(1), residual};
  }
  const at::Tensor nll = at::empty({p.samples}, of.keys.options());
  auto* nll_data = nll.mutable_data_ptr<Number>();
  kernels::intra_op_for(0, p.samples, 1, [&](int64_t begin, int64_t end) {
    attention_forward_on_cpu(p, begin, end, residual_data, nll_data);
  });
  return {nll, residual};
}

// Gradients of keys, queries [T, B, H] and v [H].
template <typename Number>
variable_list backward(const Tensors& of, const at::Tensor& residual, const at::Tensor& scale) {
  const AttentionProblem<Number> p = problem<Number>(of);
  const at::Tensor keys = at::empty_like(of.keys), queries = at::empty_like(of.queries);
  if (of.keys.is_cuda()) {
    const at::Tensor v = at::empty_like(queries);
    kernels::launch_on(of.keys.device(), [&](void* stream) {
      return attention_backward_on_gpu(
          p, residual.const_data_ptr<Number>(), scale.const_data_ptr<Number>(),
          keys.mutable_data_ptr<Number>(), queries.mutable_data_ptr<Number>(),
          v.mutable_data_ptr<Number>(), stream);
    });
    return {keys, queries, v.sum(at::IntArrayRef{0, 1})};
  }
  const at::Tensor v = at::empty({p.samples, p.hidden}, of.keys.options());
  kernels::intra_op_for(0, p.samples, 1, [&](int64_t begin, int64_t end) {
    attention_backward_on_cpu(p, begin, end, residual.const_data_ptr<Number>(),
                              scale.const_data_ptr<Number>(), keys.mutable_data_ptr<Number>(),
                              queries.mutable_data_ptr<Number>(), v.mutable_data_ptr<Number>());
  });
  return {keys, queries, v.sum(0)};  // adds in sample order, regardless of threads
}

class PointerLosses : public torch::autograd::Function<PointerLosses> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& keys,
                            const at::Tensor& queries, const at::Tensor& v, const at::Tensor& order,
                            const at::Tensor& lengths) {
    const Tensors of{prepared(keys), prepared(queries), v.contiguous(), order.contiguous(),
                     lengths.contiguous()};
    const auto [nll, residual] = keys.scalar_type() == at::kDouble ? layers::forward<double>(of)
                                                                   : layers::forward<float>(of);
    context->save_for_backward({of.keys, of.queries, of.v, of.order, of.lengths, residual});
    return nll;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensors of{saved[0], saved[1], saved[2], saved[3], saved[4]};
    const at::Tensor scale = gradients[0].contiguous();
    variable_list result = of.keys.scalar_type() == at::kDouble
                               ? layers::backward<double>(of, saved[5], scale)
                               : layers::backward<float>(of, saved[5], scale);
    result.insert(result.end(), 2, at::Tensor());
    return result;
  }
};

}  // namespace

at::Tensor pointer_losses(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& v,
                          const at::Tensor& order, const at::Tensor& lengths) {
  DTRAIN_CHECK(keys.dim() == 3 && keys.sizes() == queries.sizes() && v.dim() == 1 &&
                   v.size(0) == keys.size(2) && order.dim() == 2 && order.size(0) == keys.size(1) &&
                   order.size(1) == keys.size(0) && lengths.dim() == 1 &&
                   lengths.size(0) == keys.size(1) && order.scalar_type() == at::kLong &&
                   lengths.scalar_type() == at::kLong,
               "keys ", keys.sizes(), ", queries ", queries.sizes(), ", v ", v.sizes(), ", order ",
               order.sizes(), ", lengths ", lengths.sizes());
  const at::ScalarType precision = precision_of(keys);
  return PointerLosses::apply(keys.to(precision), queries.to(precision), v.to(precision), order,
                              lengths);
}

at::Tensor attention_scores(const at::Tensor& keys, const at::Tensor& query, const at::Tensor& v) {
  const at::ScalarType precision = precision_of(keys);
  return (keys.to(precision) + query.to(precision)).tanh_().mul(v.to(precision)).sum(2).t();
}

}  // namespace dtrain::layers
