#include "layers/batch_norm.h"

#include <torch/autograd.h>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "layers/batch_norm_arithmetic.h"
#include "layers/lengths.h"
#include "text/strings.h"

namespace dtrain::layers {
namespace {

thread_local const SyncScope* sync_scope = nullptr;
thread_local BatchNormRecord* record = nullptr;

// What the graph keeps in addition to tensors.
struct Use : torch::CustomClassHolder {
  SumOverRanks reduce;  // empty: the statistics are those of this batch alone
  bool has_samples = true;
  bool fixed = false;  // the statistics do not depend on the batch
  bool residual = false, max_pool = false;
  Activation activation = Activation::kNone;
};

using Statistics = BatchNormStatistics;

using batch_norm::is_fused;

// The gradients where sums are added up over ranks, where there are no samples, or where the
// statistics are fixed. `unused`: nothing needs the sums.
batch_norm::NormGradients in_parts(const batch_norm::Saved& saved, at::Tensor& dy,
                                   const at::Tensor& count, const Use& use, bool of_input,
                                   bool unused) {
  const at::Tensor& x = saved.x;
  at::Tensor sums = use.has_samples && !unused ? batch_norm::gradient_sums(saved, dy)
                                               : at::zeros({2 * x.size(1)}, count.options());
  // These are the sums of this rank: the gradient reducer adds up the gradients of parameters.
  batch_norm::NormGradients found = {batch_norm::parameter_gradients(saved, sums), {}};
  if (use.reduce) use.reduce(sums);
  if (use.fixed) sums.zero_();
  if (of_input) {
    found.input =
        use.has_samples ? batch_norm::input_gradient(saved, dy, sums, count) : at::zeros_like(x);
  }
  return found;
}

// Normalizes by the given statistics. If they are of the batch, the gradient flows through
// them too.
class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const std::optional<at::Tensor>& residual,
                            const std::optional<at::Tensor>& lengths, const Statistics& statistics,
                            const c10::intrusive_ptr<Use>& use) {
    const at::Tensor valid = lengths.value_or(at::Tensor());
    const batch_norm::Affine affine = {weight, bias, statistics.mean, statistics.invstd};
    const batch_norm::NormOutput out = batch_norm::normalize(
        x, valid, affine, {use->activation, residual.value_or(at::Tensor()), use->max_pool});
    const bool keeps_output = residual && use->activation != Activation::kNone;
    ctx->save_for_backward({x, weight, bias, statistics.mean, statistics.invstd, statistics.count,
                            valid, keeps_output ? out.y : at::Tensor(), out.chosen});
    ctx->saved_data["use"] = c10::IValue::make_capsule(use);
    return out.y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const auto tensors = ctx->get_saved_variables();
    const auto use = c10::static_intrusive_pointer_cast<Use>(ctx->saved_data["use"].toCapsule());
    const batch_norm::Saved saved = {
        tensors[0], tensors[6], {tensors[1], tensors[2], tensors[3], tensors[4]},
        tensors[7], tensors[8], use->activation};
    const at::Tensor &x = saved.x, &count = tensors[5];
    at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(x.suggest_memory_format());
    const bool of_input = ctx->needs_input_grad(0);
    const bool unused =
        use->fixed && !ctx->needs_input_grad(1) && !ctx->needs_input_grad(2) && !saved.y.defined();
    const batch_norm::NormGradients found =
        use->has_samples && !use->reduce && !use->fixed
            ? batch_norm::gradients(saved, dy, count, of_input)
            : in_parts(saved, dy, count, *use, of_input, unused);
    const at::Tensor residual_gradient = use->has_samples ? dy : at::zeros_like(dy);
    return {found.input,
            found.parameters.weight,
            found.parameters.bias,
            use->residual ? residual_gradient : at::Tensor(),
            {},
            {},
            {}};
  }
};

// The last micro-batch of an epoch may be one sample whose feature map has a single position. If
// the first one is like that, no batch of the run will be different.
void accept_one_value(const at::Tensor& input, bool first) {
  if (first) {
    throw ConfigError(
        dtrain::str("batch norm cannot train on one value per channel (input of shape ",
                    input.sizes(), "): use a larger batch or image, or train.freeze_batch_norm"));
  }
  static std::once_flag said;
  std::call_once(said, [] {
    log::warning(
        "batch norm got one value per channel from a micro-batch: its statistics do not change, "
        "and the layers before "
        "it learn nothing from that sample. A larger batch or image avoids this");
  });
}

// The input in the form that the kernels take.
at::Tensor readable(const at::Tensor& input) {
  const bool widen = input.is_cpu() && input.scalar_type() == at::kHalf;
  return (widen ? input.to(at::kFloat) : input).contiguous(input.suggest_memory_format());
}

at::Tensor normalize(const at::Tensor& x, const BatchNormImpl& layer, const at::Tensor& lengths,
                     const Statistics& statistics, const c10::intrusive_ptr<Use>& use,
                     const Epilogue& epilogue) {
  Epilogue inside, after = epilogue;
  if (is_fused(x)) {
    inside = epilogue;
    after = {};
    if (epilogue.max_pool && (epilogue.residual.defined() || !batch_norm::can_pool(x))) {
      inside.max_pool = false;
      inside.activation = Activation::kNone;
      after = {.activation = epilogue.activation, .max_pool = true};
    }
    if (inside.residual.defined()) {
      inside.residual = inside.residual.to(x.scalar_type()).contiguous(x.suggest_memory_format());
    }
  }
  use->residual = inside.residual.defined();
  use->max_pool = inside.max_pool;
  use->activation = inside.activation;
  const auto given = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  };
  return apply_epilogue(after, Normalize::apply(x, layer.weight, layer.bias, given(inside.residual),
                                                given(lengths), statistics, use));
}

}  // namespace

SyncScope::SyncScope(SumOverRanks reduce, bool has_samples)
    : reduce_(std::move(reduce)), has_samples_(has_samples), outer_(sync_scope) {
  sync_scope = this;
}
SyncScope::~SyncScope() { sync_scope = outer_; }

const SyncScope* current_sync_scope() { return sync_scope; }

BatchNormRecordScope::BatchNormRecordScope(BatchNormRecord* inner) : outer_(record) {
  record = inner;
}
BatchNormRecordScope::~BatchNormRecordScope() { record = outer_; }

BatchNormImpl::BatchNormImpl(int64_t channels, double eps, double momentum)
    : eps_(eps), momentum_(momentum) {
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
  running_mean = register_buffer("running_mean", at::zeros({channels}));
  running_var = register_buffer("running_var", at::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

void BatchNormImpl::reset_parameters() {
  const at::NoGradGuard no_grad;
  weight.fill_(1);
  bias.zero_();
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

void BatchNormImpl::train(bool on) { torch::nn::Module::train(on && !frozen_); }

void BatchNormImpl::freeze() {
  frozen_ = true;
  train(false);
}

at::Tensor BatchNormImpl::forward(const at::Tensor& input) { return forward_with(input, {}); }

at::Tensor BatchNormImpl::forward_with(const at::Tensor& input, const Epilogue& epilogue) {
  DTRAIN_CHECK(input.dim() >= 2 && input.size(1) == weight.size(0), "batch norm of ",
               weight.size(0), " channels got an input of shape ", input.sizes());
  if (!is_training() && is_fused(input)) return normalize_by_running(input, {}, epilogue);
  if (is_training() && input.numel() == input.size(1) && sync_scope == nullptr) {
    accept_one_value(input, /*first=*/num_batches_tracked.item<int64_t>() == 0);
    return normalize_by_batch(input, {}, epilogue);
  }
  if (is_training() && (sync_scope != nullptr || is_fused(input)))
    return normalize_by_batch(input, {}, epilogue);
  // The same kernel, on copies of the statistics
  const bool again = record != nullptr && record->replay;
  if (is_training() && !again) num_batches_tracked += 1;
  return apply_epilogue(
      epilogue, at::batch_norm(input, weight, bias, again ? running_mean.clone() : running_mean,
                               again ? running_var.clone() : running_var, is_training(), momentum_,
                               eps_, at::globalContext().userEnabledCuDNN()));
}

at::Tensor BatchNormImpl::forward_valid(const at::Tensor& input, const at::Tensor& lengths,
                                        Activation activation) {
  DTRAIN_CHECK(
      input.dim() == 3 && input.size(1) == weight.size(0) && lengths.scalar_type() == at::kLong &&
          lengths.sizes() == at::IntArrayRef({input.size(0)}) && lengths.device() == input.device(),
      "batch norm of ", weight.size(0), " channels got an input of shape ", input.sizes(),
      " and lengths of ", lengths.sizes());
  const Epilogue epilogue = {.activation = activation};
  if (is_training()) return normalize_by_batch(input, lengths.contiguous(), epilogue);
  if (is_fused(input)) return normalize_by_running(input, lengths.contiguous(), epilogue);
  const at::Tensor y = at::batch_norm(input, weight, bias, running_mean, running_var, false,
                                      momentum_, eps_, at::globalContext().userEnabledCuDNN());
  return apply_epilogue(epilogue, y * valid_positions(lengths, input.size(2)).unsqueeze(1));
}

at::Tensor BatchNormImpl::normalize_by_batch(const at::Tensor& input, const at::Tensor& lengths,
                                             const Epilogue& epilogue) {
  const auto use = c10::make_intrusive<Use>();
  if (sync_scope != nullptr) {
    use->reduce = sync_scope->reduce();
    use->has_samples = sync_scope->has_samples();
  }
  const at::Tensor x = readable(input);

  const Statistics statistics =
      sync_scope == nullptr
          ? recorded([&] { return batch_norm::statistics_of(x, lengths, running()); })
          : batch_statistics(x, [&] {
              return use->has_samples
                         ? batch_norm::sums(x, lengths)
                         : at::zeros({1 + 2 * x.size(1)}, x.options().dtype(at::kDouble));
            });
  return normalize(x, *this, lengths, statistics, use, epilogue).to(input.scalar_type());
}

BatchNormStatistics BatchNormImpl::batch_statistics(const at::Tensor& input,
                                                    const std::function<at::Tensor()>& sums) {
  return recorded([&] {
    at::Tensor all = sums();
    if (sync_scope != nullptr) sync_scope->reduce()(all);
    return batch_norm::statistics(input, all, running());
  });
}

batch_norm::Running BatchNormImpl::running() const {
  return {running_mean, running_var, num_batches_tracked, momentum_, eps_};
}

BatchNormStatistics BatchNormImpl::recorded(const std::function<BatchNormStatistics()>& find) {
  if (record != nullptr && record->replay) return record->shared.at(record->next++);
  const at::NoGradGuard no_grad;
  const BatchNormStatistics found = find();
  if (record != nullptr) record->shared.push_back(found);
  return found;
}

at::Tensor BatchNormImpl::normalize_by_running(const at::Tensor& input, const at::Tensor& lengths,
                                               const Epilogue& epilogue) {
  const auto use = c10::make_intrusive<Use>();
  use->fixed = true;
  const at::Tensor x = readable(input);
  return normalize(x, *this, lengths, batch_norm::fixed_statistics(x, running()), use, epilogue)
      .to(input.scalar_type());
}

}  // namespace dtrain::layers
