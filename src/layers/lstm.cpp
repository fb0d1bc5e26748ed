#include "layers/lstm.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/check.h"
#include "kernels/lstm.h"
#include "layers/autocast.h"
#include "layers/lengths.h"
#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using kernels::LstmForward;
using kernels::PackedStep;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Much larger than the sum of a gate, so that the sigmoid is 0 or 1 in any precision.
constexpr double kSaturated = 1e4;

// Hides a warning: cuDNN copies weights that are not contiguous with each other in memory and warns
// about it in every call. Marked weights (run_padded_lstm) are not; the copy is cheap compared to
// the operation itself.
class QuietOnGpu {
 public:
  explicit QuietOnGpu(const at::Tensor& input) {
    if (input.is_cuda()) guard_.emplace(&handler_);
  }

 private:
  struct Handler : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Handler handler_;
  std::optional<c10::WarningUtils::WarningHandlerGuard> guard_;
};

// LibTorch's autocast (2.11) casts the inputs of cuDNN's LSTM to float16 even if bfloat16 is the
// autocast type. Runs in bfloat16 do not scale the loss, so gradients below 6e-8 would be lost, and
// states above 65504 would be infinite. bfloat16 is new in cuDNN's LSTM (9.13) and untested here,
// so the LSTM runs in float32, with products in TF32.
bool needs_float32(const at::Tensor& rows) {
  if (!rows.is_cuda()) return false;
  const AutocastState autocast = current_autocast(at::kCUDA);
  return autocast.enabled && autocast.dtype == at::kBFloat16;
}

bool is_bfloat16(const at::Tensor& rows) {
  const AutocastState autocast = current_autocast(rows.device().type());
  return rows.scalar_type() == at::kBFloat16 ||
         (autocast.enabled && autocast.dtype == at::kBFloat16);
}

class PackedLstm : public torch::autograd::Function<PackedLstm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& rows,
                               const at::Tensor& h, const at::Tensor& c,
                               const at::Tensor& weight_ih, const at::Tensor& weight_hh,
                               const at::Tensor& bias_ih, const at::Tensor& bias_hh,
                               const std::vector<int64_t>& counts) {
    const std::vector<PackedStep> steps = kernels::packed_steps(counts);
    const LstmForward of =
        kernels::lstm_forward(rows, {weight_ih, weight_hh, bias_ih + bias_hh}, h, c, steps);
    const at::Tensor h_last = h.clone(), c_last = c.clone();
    kernels::copy_last(of.states, steps, h_last);
    kernels::copy_last(of.cells, steps, c_last);
    context->save_for_backward({rows, h, c, weight_ih, weight_hh, of.gates, of.cells, of.states});
    context->saved_data["counts"] = counts;
    context->set_materialize_grads(false);
    return {of.states, h_last, c_last};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &h = saved[1], &c = saved[2];
    const LstmForward forward{saved[5], saved[6], saved[7]};
    const std::vector<PackedStep> steps =
        kernels::packed_steps(context->saved_data["counts"].toIntVector());
    const auto copy_of = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.clone(at::MemoryFormat::Contiguous) : at::zeros_like(h);
    };
    const at::Tensor of_states = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    const at::Tensor of_h = copy_of(gradients[1]), of_c = copy_of(gradients[2]);
    const auto needed = [&](size_t input) { return context->needs_input_grad(input); };
    const kernels::LstmGradients of = kernels::lstm_backward(
        forward, rows, {saved[3], saved[4], {}}, h, c, of_states, of_h, of_c,
        {.rows = needed(0), .ih = needed(3), .hh = needed(4), .bias = needed(5) || needed(6)},
        steps);
    return {of.rows, of_h, of_c, of.ih, of.hh, of.bias, of.bias, at::Tensor()};
  }
};

// In float32. rows [N, in]; h, c [B, H] in the packed order.
LstmResult run_packed_floats(const LstmLayer& layer, const at::Tensor& rows,
                             const PackedSteps& steps, const at::Tensor& h, const at::Tensor& c) {
  const int64_t hidden = layer.weight_hh.size(1),
                sequences = static_cast<int64_t>(steps.order.size());
  DTRAIN_CHECK(rows.is_cpu() && rows.dim() == 2 && rows.size(0) == steps.rows() &&
                   rows.size(1) == layer.weight_ih.size(1) &&
                   h.sizes() == at::IntArrayRef({sequences, hidden}) && c.sizes() == h.sizes() &&
                   rows.scalar_type() == at::kFloat,
               "LSTM of ", layer.weight_ih.sizes(), " over rows ", rows.sizes(), " ",
               c10::toString(rows.scalar_type()), " with states ", h.sizes());
  RECORD_FUNCTION("dtrain::lstm",
                  std::vector<c10::IValue>({rows, layer.weight_ih, layer.weight_hh}));
  const variable_list of =
      PackedLstm::apply(rows.contiguous(), h.contiguous(), c.contiguous(), layer.weight_ih,
                        layer.weight_hh, layer.bias_ih, layer.bias_hh, steps.counts);
  return {of[0], of[1], of[2]};
}

}  // namespace

bool runs_packed(const at::Tensor& rows) {
  return rows.is_cpu() && !(is_bfloat16(rows) && has_bfloat16_products());
}

LstmResult run_packed_lstm(const LstmLayer& layer, const at::Tensor& rows, const PackedSteps& steps,
                           const at::Tensor& h, const at::Tensor& c) {
  const AutocastGuard no_autocast({.device = at::kCPU, .enabled = false});
  const at::ScalarType type = layer.weight_hh.scalar_type();
  if (type == at::kDouble) {
    const auto [states, h_last, c_last] = at::lstm(
        rows.to(type), at::tensor(steps.counts, at::kLong),
        {h.to(type).unsqueeze(0), c.to(type).unsqueeze(0)},
        {layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh}, /*has_biases=*/true,
        /*num_layers=*/1, /*dropout=*/0, /*train=*/true, /*bidirectional=*/false);
    return {states, h_last.squeeze(0), c_last.squeeze(0)};
  }
  const LstmLayer wide = {layer.weight_ih.to(at::kFloat), layer.weight_hh.to(at::kFloat),
                          layer.bias_ih.to(at::kFloat), layer.bias_hh.to(at::kFloat)};
  const LstmResult result =
      run_packed_floats(wide, rows.to(at::kFloat), steps, h.to(at::kFloat), c.to(at::kFloat));
  return {result.states.to(type), result.h.to(type), result.c.to(type)};
}

LstmResult run_lstm(const LstmLayer& layer, const at::Tensor& rows, const at::Tensor& h,
                    const at::Tensor& c) {
  if (needs_float32(rows)) {
    const AutocastGuard no_autocast({.device = at::kCUDA, .enabled = false});
    const auto wide = [](const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; };
    return run_lstm(layer, rows.to(at::kFloat, false, false, at::MemoryFormat::Contiguous), wide(h),
                    wide(c));
  }
  DTRAIN_CHECK(h.defined() == c.defined(), "h and c are given together, or neither");
  if (!h.defined()) {
    const at::Tensor zeros =
        at::zeros({rows.size(1), layer.weight_hh.size(1)}, rows.options().requires_grad(false));
    return run_lstm(layer, rows, zeros, zeros);
  }
  if (runs_packed(rows)) {
    const int64_t steps = rows.size(0), samples = rows.size(1);
    const LstmResult packed = run_packed_lstm(layer, rows.reshape({steps * samples, rows.size(2)}),
                                              equal_lengths(samples, steps), h, c);
    return {packed.states.view({steps, samples, -1}), packed.h, packed.c};
  }
  const QuietOnGpu quiet(rows);
  const std::array weights = {layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh};
  const auto learns = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  // Without `train` the fused operations save nothing for backward.
  const bool train =
      at::GradMode::is_enabled() && (learns(rows) || learns(h) || learns(c) ||
                                     std::any_of(weights.begin(), weights.end(), learns));
  const at::Tensor x = rows.contiguous();
  const auto [states, h_last, c_last] =
      at::lstm(x, {h.unsqueeze(0), c.unsqueeze(0)}, weights, /*has_biases=*/true, /*num_layers=*/1,
               /*dropout=*/0, train, /*bidirectional=*/false, /*batch_first=*/false);
  return {states, h_last.squeeze(0), c_last.squeeze(0)};
}

std::pair<at::Tensor, at::Tensor> run_lstm_cell(const LstmLayer& layer, const at::Tensor& row,
                                                const at::Tensor& h, const at::Tensor& c) {
  if (needs_float32(row)) {
    const AutocastGuard no_autocast({.device = at::kCUDA, .enabled = false});
    return run_lstm_cell(layer, row.to(at::kFloat), h.to(at::kFloat), c.to(at::kFloat));
  }
  auto [h_next, c_next] =
      at::lstm_cell(row, {h, c}, layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh);
  return {std::move(h_next), std::move(c_next)};
}

LstmResult run_padded_lstm(const LstmLayer& layer, const at::Tensor& rows,
                           const at::Tensor& lengths, const at::Tensor& h, const at::Tensor& c) {
  const int64_t steps = rows.size(0), hidden = layer.weight_hh.size(1);
  const at::Tensor beyond = padded_positions(lengths, steps).t();  // [T, B]
  const at::Tensor mark =
      at::zeros({4 * hidden, 1}, layer.weight_ih.options().requires_grad(false));
  mark.slice(0, 0, hidden).fill_(-kSaturated);
  mark.slice(0, hidden, 2 * hidden).fill_(kSaturated);
  LstmLayer marked = layer;
  marked.weight_ih = at::cat({layer.weight_ih, mark}, 1);
  LstmResult result =
      run_lstm(marked, at::cat({rows, beyond.unsqueeze(2).to(rows.scalar_type())}, 2), h, c);
  const at::Tensor last = (lengths - 1).view({1, -1, 1}).expand({1, -1, hidden});
  result.h = result.states.gather(0, last).squeeze(0);
  return result;
}

LstmParameters::LstmParameters(int64_t inputs, int64_t hidden, int64_t layers) {
  for (int64_t i = 0; i < layers; ++i) {
    const auto add = [&, end = "_l" + std::to_string(i)](const char* name, at::IntArrayRef shape) {
      return register_parameter(name + end, at::empty(shape));
    };
    layers_.push_back({add("weight_ih", {4 * hidden, i == 0 ? inputs : hidden}),
                       add("weight_hh", {4 * hidden, hidden}), add("bias_ih", {4 * hidden}),
                       add("bias_hh", {4 * hidden})});
  }
}

void LstmParameters::to(torch::Device device, bool non_blocking) {
  Module::to(device, non_blocking);
  if (!device.is_cuda()) return;
  const at::NoGradGuard no_grad;
  constexpr int64_t kWeights = 4, kCudnnLstm = 2, kProjection = 0, kLayers = 1;
  for (const LstmLayer& layer : layers_) {
    at::_cudnn_rnn_flatten_weight({layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh},
                                  kWeights, layer.weight_ih.size(1), kCudnnLstm,
                                  layer.weight_hh.size(1), kProjection, kLayers,
                                  /*batch_first=*/false, /*bidirectional=*/false);
  }
}

LstmLayer LstmParameters::layer(int64_t index) const {
  return layers_.at(static_cast<size_t>(index));
}

}  // namespace dtrain::layers
