#include "models/checkpointed.h"

#include <ATen/autocast_mode.h>

#include <optional>
#include <utility>

#include "models/batch_norm.h"
#include "models/random_context.h"

namespace dtrain::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Autocast as it is on this thread for one kind of device. Restored, its cache of cast weights is emptied at the end.
class AutocastState {
 public:
  explicit AutocastState(at::DeviceType device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_(at::autocast::get_autocast_dtype(device)) {}

  void apply() const {
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }

 private:
  at::DeviceType device_;
  bool enabled_;
  at::ScalarType dtype_;
};

class AutocastScope {
 public:
  AutocastScope(const AutocastState& inner, at::DeviceType device) : outer_(device) {
    at::autocast::increment_nesting();
    inner.apply();
  }
  ~AutocastScope() {
    outer_.apply();
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState outer_;
};

// What backward needs beside tensors.
struct Segment : torch::CustomClassHolder {
  Segment(std::function<at::Tensor(const at::Tensor&)> function, at::DeviceType device)
      : fn(std::move(function)), autocast(device) {
    if (const RandomContext* context = current_random_context()) randomness = *context;
    if (const SyncScope* scope = current_sync_scope()) sync.emplace(scope->reduce(), scope->has_samples());
  }

  at::Tensor first(const at::Tensor& input) {
    const BatchNormRecordScope scope(&record);
    return fn(input);
  }

  at::Tensor again(const at::Tensor& input) {
    std::optional<RandomScope> random_scope;
    if (randomness) random_scope.emplace(*randomness);
    std::optional<SyncScope> sync_scope;
    if (sync) sync_scope.emplace(sync->first, sync->second);
    record.replay = true;
    record.next = 0;
    const BatchNormRecordScope record_scope(&record);
    const AutocastScope autocast_scope(autocast, input.device().type());
    return fn(input);
  }

  std::function<at::Tensor(const at::Tensor&)> fn;
  AutocastState autocast;
  std::optional<RandomContext> randomness;
  std::optional<std::pair<SumOverRanks, bool>> sync;
  BatchNormRecord record;
};

// Inputs: the segment's own input, then its parameters: an output with a gradient although the images have none, and
// gradients that reach each parameter once, by the graph's own way.
class Checkpointed : public torch::autograd::Function<Checkpointed> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, at::TensorList parameters,
                            const c10::intrusive_ptr<Segment>& segment) {
    variable_list saved = {input};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["segment"] = c10::IValue::make_capsule(segment);
    return segment->first(input);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto segment = c10::static_intrusive_pointer_cast<Segment>(ctx->saved_data["segment"].toCapsule());
    variable_list wanted = ctx->get_saved_variables();
    wanted[0] = wanted[0].detach().set_requires_grad(ctx->needs_input_grad(0));
    variable_list sources;
    for (const at::Tensor& tensor : wanted) {
      if (tensor.requires_grad()) sources.push_back(tensor);
    }
    const at::AutoGradMode with_graph(true);
    const at::Tensor output = segment->again(wanted[0]);
    const variable_list found = torch::autograd::grad({output}, sources, {gradients[0]}, /*retain_graph=*/false,
                                                      /*create_graph=*/false, /*allow_unused=*/true);
    variable_list results(wanted.size() + 1);  // none for the segment
    size_t next = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].requires_grad()) results[i] = found[next++];
    }
    return results;
  }
};

}  // namespace

at::Tensor checkpointed(std::vector<at::Tensor> parameters, std::function<at::Tensor(const at::Tensor&)> fn,
                        const at::Tensor& input) {
  const auto segment = c10::make_intrusive<Segment>(std::move(fn), input.device().type());
  return Checkpointed::apply(input, at::TensorList(parameters), segment);
}

}  // namespace dtrain::models
