// How steps are saved, and how they continue from a checkpoint. Part of step_runner.h.

#include "core/error.h"
#include "dist/object_collectives.h"
#include "models/load_weights.h"
#include "text/strings.h"
#include "train/norm_buffers.h"
#include "train/random_generators.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace dtrain::train {
namespace {

using checkpoint::NamedTensors;

at::Tensor on_cpu(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

const at::Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

// This rank's own running statistics, saved as local.NAME.
void restore_local_buffers(torch::nn::Module& model, const NamedTensors& own) {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : model.named_buffers()) {
    const at::Tensor* tensor = find(own, "local." + buffer.key());
    if (!tensor || tensor->sizes() != buffer.value().sizes()) {
      throw CheckpointError(str("the state of this rank has no statistic '", buffer.key(),
                                "' of the network's shape"));
    }
    buffer.value().detach().copy_(*tensor);
  }
}

}  // namespace

checkpoint::Snapshot StepRunner::snapshot(TrainingState& state) {
  torch::nn::Module& model = context_.task.model();
  checkpoint::Snapshot snapshot;
  snapshot.step = state.step = position_.step;
  snapshot.world_size = context_.host.size();

  NamedTensors own = random_generators(context_.device);
  for (auto& buffer : copy_buffers(model, "local.")) own.push_back(std::move(buffer));
  own.emplace_back("samples_seen", at::tensor({consumption_.samples_seen()}, at::kLong));
  const auto states = dist::all_gather_object(context_.host, checkpoint::to_safetensors(own));
  state.ledger = consumption_.totals(context_.host, loader_.bad_ids()).ledger;
  // Collective too
  const AveragedBuffers averaged(model, context_.host, consumption_.samples_seen());
  if (context_.host.rank() != 0) return snapshot;

  state.scaler = scaler_.state();
  snapshot.optimizer = phases_.state();
  for (auto& tensor : average_.state()) snapshot.optimizer.push_back(std::move(tensor));
  snapshot.model = averaged_model();
  snapshot.model_metadata = context_.task.metadata();
  for (size_t rank = 0; rank < states.size(); ++rank) {
    snapshot.ranks.push_back(
        checkpoint::from_safetensors(states[rank], str("state of rank ", rank)).tensors);
  }
  return snapshot;
}

NamedTensors StepRunner::averaged_model() {
  const WeightAverage::Scope weights(average_);
  NamedTensors tensors;
  for (const auto& item : context_.task.model().named_parameters())
    tensors.emplace_back(item.key(), on_cpu(item.value()));
  for (const auto& item : context_.task.model().named_buffers())
    tensors.emplace_back(item.key(), on_cpu(item.value()));
  return tensors;
}

std::function<void()> StepRunner::keep_state() {
  return [this, weights = averaged_model(),  // load() takes the average from the module
          average = average_.state(), moments = phases_.optimizer().state(),
          scaler = scaler_.state(), random = random_generators(context_.device),
          consumption = consumption_, loss = loss_, position = position_]() mutable {
    models::load_all(context_.task.model(), weights);
    average_.load(average);
    phases_.optimizer().load(moments);
    scaler_.load(scaler);
    set_random_generators(random, context_.device);
    bad_losses_.clear();
    consumption_ = consumption;
    loss_ = loss;
    position_ = position;
    tracker_.set_step(position_.step);
    loader_.seek(position_.step);
  };
}

void StepRunner::resume(const checkpoint::Snapshot& snapshot, const TrainingState& state) {
  models::load_all(context_.task.model(), snapshot.model);
  NamedTensors optimizer = snapshot.optimizer;
  average_.load(optimizer);
  phases_.load(optimizer);
  set_train_mode();
  scaler_.load(state.scaler);
  position_.step = state.step;
  loader_.seek(state.step);

  const auto rank = static_cast<size_t>(context_.host.rank());
  int64_t samples_seen = 0;
  if (snapshot.world_size == context_.host.size() && snapshot.ranks.size() > rank) {
    const NamedTensors& own = snapshot.ranks[rank];
    restore_local_buffers(context_.task.model(), own);
    set_random_generators(own, context_.device);
    const at::Tensor* seen = find(own, "samples_seen");
    if (seen) samples_seen = seen->item<int64_t>();
  }
  consumption_ = Consumption(rank == 0 ? state.ledger : 0, samples_seen);
}

}  // namespace dtrain::train
