#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <tuple>
#include <vector>

#include "numbers/compute.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

std::vector<Tensor> hosts_of(at::TensorList tensors) {
  std::vector<Tensor> hosts;
  for (const Tensor& tensor : tensors) hosts.push_back(on_host(tensor));
  return hosts;
}

void check_lstm(at::TensorList weights, int64_t mode, int64_t layers, bool bidirectional,
                at::IntArrayRef sizes, int64_t projection) {
  constexpr int64_t kLstm = 2;
  const bool known = weights.size() == 4 && mode == kLstm && layers == 1 && !bidirectional &&
                     sizes.empty() && projection == 0;
  TORCH_CHECK(known, "fake GPU: a recurrent network that is not computed");
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> cudnn_rnn(
    const Tensor& x, at::TensorList weights, int64_t, const Optional&, const Tensor& h0,
    const Optional& c0, int64_t mode, int64_t hidden, int64_t projection, int64_t layers,
    bool batch_first, double, bool, bool bidirectional, at::IntArrayRef sizes, const Optional&) {
  check_lstm(weights, mode, layers, bidirectional, sizes, projection);
  const Tensor y = at::empty({x.size(0), x.size(1), hidden}, x.options());
  const Tensor h = at::empty(h0.sizes(), x.options()), c = at::empty(h0.sizes(), x.options());
  compute(x.device(), "_cudnn_rnn",
          [=, y = on_host(y), h = on_host(h), c = on_host(c), x = on_host(x),
           weights = hosts_of(weights), h0 = on_host(h0), c0 = on_host(c0)] {
            std::vector<Tensor> of;
            for (const Tensor& weight : weights) of.push_back(wide(weight));
            const auto [out, hn, cn] =
                at::lstm(wide(x), {wide(h0), wide(c0)}, of, true, 1, 0, false, false, batch_first);
            y.copy_(out);
            h.copy_(hn);
            c.copy_(cn);
          });
  const Tensor reserve = at::empty({1}, x.options().dtype(at::kByte));
  return {y, h, c, reserve, at::empty({1}, x.options())};
}

// The gradients of an LSTM by x, the weights, h0 and c0, computed by autograd from the beginning.
std::vector<Tensor> gradients(const Tensor& x, const std::vector<Tensor>& weights, const Tensor& h0,
                              const Tensor& c0, const std::array<Tensor, 3>& given,
                              bool batch_first) {
  const at::AutoGradMode with_gradients(true);
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = c10::autocast_dispatch_keyset;  // not autograd, which compute() excludes
  const c10::impl::ForceDispatchKeyGuard guard(keys);
  std::vector<Tensor> inputs;
  const auto leaf = [&](const Tensor& tensor) {
    inputs.push_back(wide(tensor.detach()).clone().requires_grad_());
    return inputs.back();
  };
  leaf(x);
  std::vector<Tensor> of;
  for (const Tensor& weight : weights) of.push_back(leaf(weight));
  const Tensor h = leaf(h0), c = leaf(c0);
  const auto [y, hn, cn] = at::lstm(inputs[0], {h, c}, of, true, 1, 0, true, false, batch_first);
  const std::array found = {y, hn, cn};
  std::vector<Tensor> outputs, by;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!given[i].defined()) continue;
    outputs.push_back(found[i]);
    by.push_back(wide(given[i]).clone());
  }
  return torch::autograd::grad(outputs, inputs, by);
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>> cudnn_rnn_backward(
    const Tensor& x, at::TensorList weights, int64_t, const Tensor&, const Tensor& h0,
    const Optional& c0, const Tensor&, const Optional& dy, const Optional& dh, const Optional& dc,
    int64_t mode, int64_t, int64_t projection, int64_t layers, bool batch_first, double, bool,
    bool bidirectional, at::IntArrayRef sizes, const Optional&, const Tensor&,
    std::array<bool, 4>) {
  check_lstm(weights, mode, layers, bidirectional, sizes, projection);
  std::vector<Tensor> out = {at::empty_like(x)};
  for (const Tensor& weight : weights) out.push_back(at::empty_like(weight));
  out.push_back(at::empty_like(h0));
  out.push_back(at::empty_like(*c0));
  compute(x.device(), "_cudnn_rnn_backward",
          [=, out = hosts_of(out), x = on_host(x), weights = hosts_of(weights), h0 = on_host(h0),
           c0 = on_host(c0), given = std::array{on_host(dy), on_host(dh), on_host(dc)}] {
            const std::vector<Tensor> found = gradients(x, weights, h0, c0, given, batch_first);
            for (size_t i = 0; i < out.size(); ++i) out[i].copy_(found[i]);
          });
  return {out[0], out[5], out[6], {out[1], out[2], out[3], out[4]}};
}

// In one piece of memory, each after the other.
Tensor flatten_weight(at::TensorList weights, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                      bool, bool) {
  const at::NoGradGuard no_grad;
  int64_t elements = 0;
  for (const Tensor& weight : weights) elements += weight.numel();
  const Tensor all = at::empty({elements}, weights[0].options());
  int64_t begin = 0;
  for (const Tensor& weight : weights) {
    const Tensor place = all.slice(0, begin, begin + weight.numel()).view(weight.sizes());
    place.copy_(weight);
    weight.set_(place);
    begin += weight.numel();
  }
  return all;
}

std::tuple<Tensor, Tensor, Tensor> fused_cell(const Tensor& of_input, const Tensor& of_hidden,
                                              const Tensor& cx, const Optional& input_bias,
                                              const Optional& hidden_bias) {
  const Tensor h = at::empty_like(cx), c = at::empty_like(cx), work = at::empty_like(of_input);
  compute(cx.device(), "_thnn_fused_lstm_cell",
          [=, h = on_host(h), c = on_host(c), work = on_host(work), of_input = on_host(of_input),
           of_hidden = on_host(of_hidden), cx = on_host(cx), input_bias = on_host(input_bias),
           hidden_bias = on_host(hidden_bias)] {
            Tensor sum = wide(of_input) + wide(of_hidden);
            if (input_bias.defined()) sum = sum + wide(input_bias);
            if (hidden_bias.defined()) sum = sum + wide(hidden_bias);
            const std::vector<Tensor> gates = sum.chunk(4, 1);
            const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(),
                         o = gates[3].sigmoid();
            const Tensor next = f * wide(cx) + i * g;
            h.copy_(o * next.tanh());
            c.copy_(next);
            work.copy_(at::cat({i, f, g, o}, 1));
          });
  return {h, c, work};
}

std::tuple<Tensor, Tensor, Tensor> fused_cell_backward(const Optional& dh, const Optional& dc,
                                                       const Tensor& cx, const Tensor& cy,
                                                       const Tensor& work, bool has_bias) {
  const Tensor d_gates = at::empty_like(work), d_cx = at::empty_like(cx);
  const Tensor d_bias = has_bias ? at::empty({work.size(1)}, work.options()) : Tensor();
  compute(cx.device(), "_thnn_fused_lstm_cell_backward_impl",
          [=, d_gates = on_host(d_gates), d_cx = on_host(d_cx), d_bias = on_host(d_bias),
           dh = on_host(dh), dc = on_host(dc), cx = on_host(cx), cy = on_host(cy),
           work = on_host(work)] {
            const std::vector<Tensor> gates = wide(work).chunk(4, 1);
            const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
            const Tensor t = wide(cy).tanh();
            const Tensor by_h = dh.defined() ? wide(dh) : at::zeros_like(t);
            const Tensor by_c =
                by_h * o * (1 - t * t) + (dc.defined() ? wide(dc) : at::zeros_like(t));
            const Tensor all = at::cat({by_c * g * i * (1 - i), by_c * wide(cx) * f * (1 - f),
                                        by_c * i * (1 - g * g), by_h * t * o * (1 - o)},
                                       1);
            d_gates.copy_(all);
            d_cx.copy_(by_c * f);
            if (d_bias.defined()) d_bias.copy_(all.sum(0));
          });
  return {d_gates, d_cx, d_bias};
}

}  // namespace

void add_lstm(torch::Library& library) {
  library.impl("_cudnn_rnn", TORCH_FN(cudnn_rnn));
  library.impl("_cudnn_rnn_backward", TORCH_FN(cudnn_rnn_backward));
  library.impl("_cudnn_rnn_flatten_weight", TORCH_FN(flatten_weight));
  library.impl("_thnn_fused_lstm_cell", TORCH_FN(fused_cell));
  library.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(fused_cell_backward));
}

}  // namespace fake_gpu
