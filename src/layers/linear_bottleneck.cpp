#include "layers/linear_bottleneck.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <optional>
#include <vector>

#include "core/check.h"
#include "kernels/batch_norm_channels.h"
#include "kernels/fused_convolutions.h"
#include "layers/autocast.h"
#include "layers/batch_norm_arithmetic.h"
#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace fused = kernels::fused;
using Channels = kernels::batch_norm::ChannelValues<float>;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

thread_local int one_by_one = 0;  // scopes

// A batch norm whose sums the convolutions compute: its values for normalizing, and what
// backward keeps.
struct Norm {
  at::Tensor weight, bias;
  BatchNormStatistics statistics;

  batch_norm::Affine affine() const { return {weight, bias, statistics.mean, statistics.invstd}; }
};

// What the graph keeps in addition to tensors.
struct Use : torch::CustomClassHolder {
  SumOverRanks reduce;  // empty: the statistics are those of this batch alone
  int64_t stride = 1;
};

// The tensors of save_for_backward, in this order; the first norm is of undefined tensors without
// an expansion.
struct Saved {
  at::Tensor x, expansion, expanded, depthwise, filtered, projection;
  Norm expansion_norm, depthwise_norm;

  bool expands() const { return expansion.defined(); }
  variable_list all() const {
    const Norm &a = expansion_norm, &b = depthwise_norm;
    return {x,
            expansion,
            expanded,
            depthwise,
            filtered,
            projection,
            a.weight,
            a.bias,
            a.statistics.mean,
            a.statistics.invstd,
            a.statistics.count,
            b.weight,
            b.bias,
            b.statistics.mean,
            b.statistics.invstd,
            b.statistics.count};
  }
  explicit Saved(const variable_list& t)
      : x(t[0]),
        expansion(t[1]),
        expanded(t[2]),
        depthwise(t[3]),
        filtered(t[4]),
        projection(t[5]),
        expansion_norm{t[6], t[7], {t[8], t[9], t[10]}},
        depthwise_norm{t[11], t[12], {t[13], t[14], t[15]}} {}
  Saved() = default;
};

// The gradients of a batch norm's parameters, from the sums of this rank; then sums them over the
// ranks, for the gradient of what was normalized.
batch_norm::ParameterGradients finish(const Norm& norm, const at::Tensor& y, at::Tensor& sums,
                                      const Use& use, Channels& channels) {
  const batch_norm::ParameterGradients parameters = batch_norm::parameter_gradients(
      {.x = y, .lengths = {}, .affine = norm.affine(), .y = {}, .chosen = {}}, sums);
  if (use.reduce) use.reduce(sums);
  channels.add_sums(norm.affine(), sums, norm.statistics.count);
  return parameters;
}

class Bottleneck : public torch::autograd::Function<Bottleneck> {
 public:
  // The parameters again, because autograd looks for them among the arguments.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& expansion,
                            const std::optional<at::Tensor>& expansion_weight,
                            const std::optional<at::Tensor>& expansion_bias,
                            const at::Tensor& depthwise, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& projection,
                            const LinearBottleneck& block) {
    const auto use = c10::make_intrusive<Use>();
    if (const SyncScope* scope = current_sync_scope()) use->reduce = scope->reduce();
    use->stride = block.stride;
    Saved saved;
    saved.x = x;
    saved.depthwise = depthwise;
    saved.projection = projection;
    std::optional<Channels> of_expansion;
    fused::Input in = {x, nullptr};
    if (expansion) {
      saved.expansion = *expansion;
      const fused::ConvOutput out = fused::pointwise(in, *expansion, /*with_sums=*/true);
      saved.expanded = out.y;
      saved.expansion_norm = {
          *expansion_weight, *expansion_bias,
          block.expansion_norm->batch_statistics(out.y, [&] { return out.sums; })};
      of_expansion.emplace(saved.expansion_norm.affine());
      in = {out.y, &*of_expansion};
    }
    const fused::ConvOutput out = fused::depthwise(in, depthwise, block.stride);
    saved.filtered = out.y;
    saved.depthwise_norm = {
        weight, bias, block.depthwise_norm->batch_statistics(out.y, [&] { return out.sums; })};
    const Channels of_depthwise(saved.depthwise_norm.affine());
    context->save_for_backward(saved.all());
    context->saved_data["use"] = c10::IValue::make_capsule(use);
    return fused::pointwise({out.y, &of_depthwise}, projection, /*with_sums=*/false).y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Saved saved(context->get_saved_variables());
    const auto use =
        c10::static_intrusive_pointer_cast<Use>(context->saved_data["use"].toCapsule());
    const bool with_x = context->needs_input_grad(0);

    Channels of_depthwise(saved.depthwise_norm.affine());
    const fused::Gradient dy = {gradients[0].contiguous(kChannelsLast), {}, nullptr};
    fused::Gradients projection = fused::pointwise_gradients({saved.filtered, &of_depthwise},
                                                             saved.projection, dy, /*with_x=*/true);
    const auto depthwise_norm =
        finish(saved.depthwise_norm, saved.filtered, projection.sums, *use, of_depthwise);

    std::optional<Channels> of_expansion;
    if (saved.expands()) of_expansion.emplace(saved.expansion_norm.affine());
    const fused::Input in = {saved.expands() ? saved.expanded : saved.x,
                             saved.expands() ? &*of_expansion : nullptr};
    fused::Gradients depthwise = fused::depthwise_gradients(
        in, saved.depthwise, use->stride, {projection.x, saved.filtered, &of_depthwise},
        saved.expands() || with_x);
    projection.x.reset();
    if (!saved.expands()) {
      return {depthwise.x,
              {},
              {},
              {},
              depthwise.weight,
              depthwise_norm.weight,
              depthwise_norm.bias,
              projection.weight,
              {}};
    }
    const auto expansion_norm =
        finish(saved.expansion_norm, saved.expanded, depthwise.sums, *use, *of_expansion);
    const fused::Gradients expansion = fused::pointwise_gradients(
        {saved.x, nullptr}, saved.expansion, {depthwise.x, saved.expanded, &*of_expansion}, with_x);
    return {expansion.x,         expansion.weight,  expansion_norm.weight,
            expansion_norm.bias, depthwise.weight,  depthwise_norm.weight,
            depthwise_norm.bias, projection.weight, {}};
  }
};

bool trains(const BatchNormImpl& norm) {
  return norm.is_training() && norm.weight.scalar_type() == at::kFloat &&
         norm.running_mean.scalar_type() == at::kFloat &&
         norm.weight.size(0) % kernels::batch_norm::kLanes == 0;
}

// Layers one by one would have a node of the graph for each batch norm through which a gradient
// passes, and a collective in each of those nodes.
bool passes_all_or_none(const LinearBottleneck& block, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || x.requires_grad()) return true;
  const bool expands = block.expansion.defined();
  const BatchNormImpl& first = expands ? *block.expansion_norm : *block.depthwise_norm;
  const at::Tensor& weight = expands ? block.expansion : block.depthwise;
  return weight.requires_grad() || first.weight.requires_grad() || first.bias.requires_grad();
}

bool is_float(const at::Tensor& weight) {
  return weight.scalar_type() == at::kFloat && weight.is_contiguous();
}

}  // namespace

bool is_fused(const LinearBottleneck& block, const at::Tensor& x) {
  const SyncScope* scope = current_sync_scope();
  if (one_by_one > 0 || widest_vectors() == VectorSet::kAny || !x.is_cpu() ||
      x.scalar_type() != at::kFloat || x.dim() != 4 || !x.is_contiguous(kChannelsLast) ||
      x.numel() == 0 || current_autocast(at::kCPU).enabled ||
      (scope != nullptr && !scope->has_samples())) {
    return false;
  }
  const int64_t height = (x.size(2) - 1) / block.stride + 1,
                width = (x.size(3) - 1) / block.stride + 1;
  const bool expands = block.expansion.defined();
  return x.size(0) * height * width > 1 && passes_all_or_none(block, x) &&
         is_float(block.depthwise) && is_float(block.projection) && trains(*block.depthwise_norm) &&
         (!expands || (is_float(block.expansion) && trains(*block.expansion_norm)));
}

LayersOneByOne::LayersOneByOne() { ++one_by_one; }
LayersOneByOne::~LayersOneByOne() { --one_by_one; }

at::Tensor run(const LinearBottleneck& block, const at::Tensor& x) {
  const int64_t hidden = block.depthwise.size(0);
  DTRAIN_CHECK(is_fused(block, x) && block.projection.size(1) == hidden &&
                   x.size(1) == (block.expansion.defined() ? block.expansion.size(1) : hidden),
               "linear bottleneck of ", hidden, " channels got an input of shape ", x.sizes());
  RECORD_FUNCTION("dtrain::linear_bottleneck",
                  std::vector<c10::IValue>({x, block.depthwise, block.projection}));
  const auto given = [&](const at::Tensor& tensor) {
    return block.expansion.defined() ? std::optional(tensor) : std::nullopt;
  };
  const BatchNormImpl &inner = *block.depthwise_norm, *outer = block.expansion_norm;
  return Bottleneck::apply(x, given(block.expansion),
                           given(outer != nullptr ? outer->weight : at::Tensor()),
                           given(outer != nullptr ? outer->bias : at::Tensor()), block.depthwise,
                           inner.weight, inner.bias, block.projection, block);
}

}  // namespace dtrain::layers
