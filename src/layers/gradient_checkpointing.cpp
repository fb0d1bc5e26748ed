#include "layers/gradient_checkpointing.h"

#include <torch/autograd.h>
#include <optional>
#include <utility>

#include "layers/autocast.h"
#include "layers/batch_norm.h"
#include "layers/random_context.h"

namespace dtrain::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs in addition to tensors.
struct Segment : torch::CustomClassHolder {
  Segment(std::function<at::Tensor(const at::Tensor&)> function, at::DeviceType device)
      : fn(std::move(function)), autocast(current_autocast(device)) {
    if (const RandomContext* context = current_random_context()) randomness = *context;
    if (const SyncScope* scope = current_sync_scope())
      sync.emplace(scope->reduce(), scope->has_samples());
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
    const AutocastGuard autocast_guard(autocast);
    return fn(input);
  }

  std::function<at::Tensor(const at::Tensor&)> fn;
  AutocastState autocast;
  std::optional<RandomContext> randomness;
  std::optional<std::pair<SumOverRanks, bool>> sync;
  BatchNormRecord record;
};

// The function's inputs are the segment's input and its parameters. So the output has a gradient
// even if the input (the images) has none, and the gradient of each parameter arrives once, through
// the graph.
class Checkpointed : public torch::autograd::Function<Checkpointed> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input,
                            at::TensorList parameters, const c10::intrusive_ptr<Segment>& segment) {
    variable_list saved = {input};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["segment"] = c10::IValue::make_capsule(segment);
    return segment->first(input);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto segment =
        c10::static_intrusive_pointer_cast<Segment>(ctx->saved_data["segment"].toCapsule());
    variable_list wanted = ctx->get_saved_variables();
    wanted[0] = wanted[0].detach().set_requires_grad(ctx->needs_input_grad(0));
    variable_list sources;
    for (const at::Tensor& tensor : wanted) {
      if (tensor.requires_grad()) sources.push_back(tensor);
    }
    const at::AutoGradMode with_graph(true);
    const at::Tensor output = segment->again(wanted[0]);
    const variable_list found =
        torch::autograd::grad({output}, sources, {gradients[0]}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    variable_list results(wanted.size() + 1);  // the last one, for the segment, stays undefined
    size_t next = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].requires_grad()) results[i] = found[next++];
    }
    return results;
  }
};

}  // namespace

at::Tensor checkpointed(std::vector<at::Tensor> parameters,
                        std::function<at::Tensor(const at::Tensor&)> fn, const at::Tensor& input) {
  const auto segment = c10::make_intrusive<Segment>(std::move(fn), input.device().type());
  return Checkpointed::apply(input, at::TensorList(parameters), segment);
}

}  // namespace dtrain::layers
