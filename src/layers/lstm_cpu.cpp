#include "layers/lstm_cpu.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <algorithm>

#include "core/check.h"
#include "layers/intra_op.h"
#include "layers/lstm_loops.h"
#include "layers/packed_matrix.h"

namespace dtrain::layers::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kCellsPerThread = 4096;  // at least: waking a thread takes as long as about this many

template <typename Body>
void for_rows(int64_t rows, int64_t hidden, const Body& body) {
  intra_op_for(0, rows, 1 + kCellsPerThread / hidden, body);
}

// The rows of a step in packed tensors.
struct Step {
  int64_t begin, count;
};

std::vector<Step> steps_of(at::IntArrayRef counts) {
  std::vector<Step> steps;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    steps.push_back({begin, count});
    begin += count;
  }
  return steps;
}

// Copies what each sequence has after its last row into last [B, H].
void copy_last(const at::Tensor& packed, const std::vector<Step>& steps, const at::Tensor& last) {
  for (size_t t = 0; t < steps.size(); ++t) {
    const auto [begin, count] = steps[t];
    const int64_t stay = t + 1 < steps.size() ? steps[t + 1].count : 0;
    if (stay < count) last.narrow(0, stay, count - stay).copy_(packed.narrow(0, begin + stay, count - stay));
  }
}

// What was before each row: of the first step `initial` [B, H], of others the rows of the step before. [N, H]
at::Tensor rows_before(const at::Tensor& packed, const std::vector<Step>& steps, const at::Tensor& initial) {
  const at::Tensor before = at::empty_like(packed);
  for (size_t t = 0; t < steps.size(); ++t) {
    const auto [begin, count] = steps[t];
    before.narrow(0, begin, count)
        .copy_(t == 0 ? initial.narrow(0, 0, count) : packed.narrow(0, steps[t - 1].begin, count));
  }
  return before;
}

// a^T b [m, n] of a [N, m] and b [N, n]. With few columns MKL takes ten times as long as for the transposed product.
at::Tensor sum_of_products(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t kFew = 64;
  return b.size(1) < kFew ? b.t().mm(a).t().contiguous() : a.t().mm(b);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  PackedMatrix(b).multiply(a, at::zeros({b.size(1)}, a.options()), result);
  return result;
}

struct Forward {
  at::Tensor gates, cells, states;  // [N, 4H] the values of the gates, [N, H], [N, H]
};

template <typename Number>
Forward run_steps(const at::Tensor& rows, const LstmLayer& layer, const at::Tensor& h, const at::Tensor& c,
                  const std::vector<Step>& steps) {
  const int64_t hidden = h.size(1);
  const at::Tensor gates = at::empty({rows.size(0), 4 * hidden}, rows.options());
  PackedMatrix(layer.weight_ih.t()).multiply(rows, layer.bias_ih + layer.bias_hh, gates);
  const PackedMatrix recurrent(layer.weight_hh.t());
  const at::Tensor cells = at::empty({rows.size(0), hidden}, rows.options()), states = at::empty_like(cells);
  at::Tensor h_before = h;
  const Number* c_before = c.const_data_ptr<Number>();
  for (const auto [begin, count] : steps) {
    recurrent.add_product(h_before.narrow(0, 0, count), gates.narrow(0, begin, count));
    const LstmStep<Number> step{.hidden = hidden,
                                .gates = gates.mutable_data_ptr<Number>() + begin * 4 * hidden,
                                .c_before = c_before,
                                .c = cells.mutable_data_ptr<Number>() + begin * hidden,
                                .h = states.mutable_data_ptr<Number>() + begin * hidden};
    for_rows(count, hidden, [&](int64_t first, int64_t end) { compute_lstm_step(step, first, end); });
    h_before = states.narrow(0, begin, count);
    c_before = step.c;
  }
  return {gates, cells, states};
}

// The gradient of the sums of products [N, 4H]. of_h, of_c [B, H]: the gradients of the last state and cell of each
// sequence, which become those of the first.
template <typename Number>
at::Tensor differentiate_steps(const Forward& of, const at::Tensor& weight_hh, const at::Tensor& c,
                               const at::Tensor& of_states, const at::Tensor& of_h, const at::Tensor& of_c,
                               const std::vector<Step>& steps) {
  const int64_t hidden = c.size(1);
  const at::Tensor of_gates = at::empty_like(of.gates), zeros = at::zeros({hidden}, c.options());
  const PackedMatrix recurrent(weight_hh);
  for (size_t t = steps.size(); t-- > 0;) {
    const auto [begin, count] = steps[t];
    const Number* cells = of.cells.const_data_ptr<Number>();
    const LstmStepGradient<Number> step{
        .hidden = hidden,
        .gates = of.gates.const_data_ptr<Number>() + begin * 4 * hidden,
        .c_before = t == 0 ? c.const_data_ptr<Number>() : cells + steps[t - 1].begin * hidden,
        .c = cells + begin * hidden,
        .of_state = of_states.defined() ? of_states.const_data_ptr<Number>() + begin * hidden : nullptr,
        .of_h = of_h.const_data_ptr<Number>(),
        .of_c = of_c.mutable_data_ptr<Number>(),
        .of_gates = of_gates.mutable_data_ptr<Number>() + begin * 4 * hidden};
    for_rows(count, hidden, [&](int64_t first, int64_t end) { differentiate_lstm_step(step, first, end); });
    recurrent.multiply(of_gates.narrow(0, begin, count), zeros, of_h.narrow(0, 0, count));
  }
  return of_gates;
}

// Calls use(Number()) with the type of x.
template <typename Use>
auto by_type(const at::Tensor& x, Use use) {
  return x.scalar_type() == at::kDouble ? use(double()) : use(float());
}

class PackedLstm : public torch::autograd::Function<PackedLstm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& h,
                               const at::Tensor& c, const at::Tensor& weight_ih, const at::Tensor& weight_hh,
                               const at::Tensor& bias_ih, const at::Tensor& bias_hh,
                               const std::vector<int64_t>& counts) {
    const std::vector<Step> steps = steps_of(counts);
    const Forward of = by_type(rows, [&](auto number) {
      return run_steps<decltype(number)>(rows, {weight_ih, weight_hh, bias_ih, bias_hh}, h, c, steps);
    });
    const at::Tensor h_last = h.clone(), c_last = c.clone();
    copy_last(of.states, steps, h_last);
    copy_last(of.cells, steps, c_last);
    context->save_for_backward({rows, h, c, weight_ih, weight_hh, of.gates, of.cells, of.states});
    context->saved_data["counts"] = counts;
    context->set_materialize_grads(false);
    return {of.states, h_last, c_last};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &h = saved[1], &c = saved[2], &weight_ih = saved[3], &weight_hh = saved[4];
    const Forward of{saved[5], saved[6], saved[7]};
    const std::vector<Step> steps = steps_of(context->saved_data["counts"].toIntVector());
    const auto copy_of = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.clone(at::MemoryFormat::Contiguous) : at::zeros_like(h);
    };
    const at::Tensor of_states = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    const at::Tensor of_h = copy_of(gradients[1]), of_c = copy_of(gradients[2]);
    const at::Tensor of_gates = by_type(rows, [&](auto number) {
      return differentiate_steps<decltype(number)>(of, weight_hh, c, of_states, of_h, of_c, steps);
    });
    const auto needed = [&](size_t input) { return context->needs_input_grad(input); };
    const at::Tensor none, of_bias = needed(5) || needed(6) ? of_gates.sum(0) : none;
    return {needed(0) ? product(of_gates, weight_ih) : none,
            of_h,
            of_c,
            needed(3) ? sum_of_products(of_gates, rows) : none,
            needed(4) ? sum_of_products(of_gates, rows_before(of.states, steps, h)) : none,
            of_bias,
            of_bias,
            none};
  }
};

}  // namespace

LstmResult run_lstm(const LstmLayer& layer, const at::Tensor& rows, const PackedSteps& steps, const at::Tensor& h,
                    const at::Tensor& c) {
  const int64_t hidden = layer.weight_hh.size(1), sequences = static_cast<int64_t>(steps.order.size());
  DTRAIN_CHECK(rows.is_cpu() && rows.dim() == 2 && rows.size(0) == steps.rows() &&
                   rows.size(1) == layer.weight_ih.size(1) && h.sizes() == at::IntArrayRef({sequences, hidden}) &&
                   c.sizes() == h.sizes() && (rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kDouble),
               "LSTM of ", layer.weight_ih.sizes(), " over rows ", rows.sizes(), " ", c10::toString(rows.scalar_type()),
               " with states ", h.sizes());
  RECORD_FUNCTION("dtrain::lstm", std::vector<c10::IValue>({rows, layer.weight_ih, layer.weight_hh}));
  const variable_list of = PackedLstm::apply(rows.contiguous(), h.contiguous(), c.contiguous(), layer.weight_ih,
                                             layer.weight_hh, layer.bias_ih, layer.bias_hh, steps.counts);
  return {of[0], of[1], of[2]};
}

}  // namespace dtrain::layers::cpu
