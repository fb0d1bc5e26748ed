// What a checkpoint holds of a run, and how a run takes it over. The other half of trainer.h.

#include <torch/version.h>

#include "config/load.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "models/load_weights.h"
#include "train/norm_buffers.h"
#include "train/trainer.h"
#include "train/training_state.h"

namespace dtrain::train {
namespace {

using checkpoint::NamedTensors;

at::Tensor on_cpu(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

NamedTensors generators(at::Device device) {
  NamedTensors states = {{"rng.cpu", at::globalContext().defaultGenerator(at::kCPU).get_state()}};
  if (device.is_cuda()) states.emplace_back("rng.cuda", at::globalContext().defaultGenerator(device).get_state());
  return states;
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
      throw CheckpointError(str("the state of this rank has no statistic '", buffer.key(), "' of the network's shape"));
    }
    buffer.value().detach().copy_(*tensor);
  }
}

}  // namespace

checkpoint::Snapshot Trainer::snapshot() {
  torch::nn::Module& model = parts_.task.model();
  checkpoint::Snapshot snapshot;
  snapshot.step = step_;
  snapshot.world_size = parts_.host.size();

  NamedTensors own = generators(parts_.device);
  for (auto& buffer : copy_buffers(model, "local.")) own.push_back(std::move(buffer));
  own.emplace_back("samples_seen", at::tensor({samples_seen_}, at::kLong));
  const auto states = dist::all_gather_object(parts_.host, checkpoint::to_safetensors(own));
  const uint64_t ledger = consumed_by_all().ledger;
  const AveragedBuffers averaged(model, parts_.host, samples_seen_);  // collective too
  if (parts_.host.rank() != 0) return snapshot;

  snapshot.optimizer = phases_.state();
  for (auto& tensor : average_.state()) snapshot.optimizer.push_back(std::move(tensor));
  const WeightAverage::Scope weights(average_);
  for (const auto& item : model.named_parameters()) snapshot.model.emplace_back(item.key(), on_cpu(item.value()));
  for (const auto& item : model.named_buffers()) snapshot.model.emplace_back(item.key(), on_cpu(item.value()));
  snapshot.model_metadata = parts_.task.metadata();
  for (size_t rank = 0; rank < states.size(); ++rank) {
    snapshot.ranks.push_back(checkpoint::from_safetensors(states[rank], str("state of rank ", rank)).tensors);
  }
  snapshot.state_json = to_json({.step = step_,
                                 .global_batch = parts_.batches.global_batch,
                                 .ledger = ledger,
                                 .metric = watched_.name,
                                 .watch = watch_,
                                 .plateau = plateau_,
                                 .scaler = scaler_.state(),
                                 .evaluation_owed = evaluation_owed_,
                                 .data_checksum = parts_.store.schema().checksum,
                                 .splits_checksum = data::checksum(parts_.splits),
                                 .config_yaml = config::to_yaml(parts_.config),
                                 .torch_version = TORCH_VERSION});
  return snapshot;
}

void Trainer::save(const char* why) {
  if (saved_step_ == step_ || parts_.config.run.name.empty()) return;
  for (const auto& sink : parts_.sinks) sink->state("saving");
  parts_.progress("all_reduce", step_);
  check_losses();  // such a state would push out the good ones
  parts_.progress(parts_.host.rank() == 0 ? "checkpoint" : "all_reduce", step_);  // the others wait for rank 0
  clock_.enter(monitoring::Phase::kCheckpoint);
  const auto begin = std::chrono::steady_clock::now();
  const checkpoint::Snapshot saved = snapshot();
  dist::agree_on_rank0(parts_.host, [&] {
    const std::filesystem::path folder = parts_.checkpoints->save(saved);
    log::info(str("saved ", folder.string(), " (", why, ")"));
  });
  clock_.stop();
  saved_step_ = step_;
  const auto end = std::chrono::steady_clock::now();
  save_pace_.done(end);
  const double seconds = std::chrono::duration<double>(end - begin).count();
  for (const auto& sink : parts_.sinks) {
    sink->checkpoint_saved(step_, seconds);
    sink->state("training");
  }
}

void Trainer::resume(const checkpoint::Snapshot& snapshot) {
  torch::nn::Module& model = parts_.task.model();
  const TrainingState state = from_json(snapshot.state_json);
  models::load_all(model, snapshot.model);
  NamedTensors optimizer = snapshot.optimizer;
  average_.load(optimizer);
  phases_.load(optimizer);
  set_train_mode();
  scaler_.load(state.scaler);
  step_ = state.step;
  skipped_ = state.scaler.skipped;
  evaluation_owed_ = state.evaluation_owed;
  resume_watch(state);
  ledger_ = data::Ledger(parts_.host.rank() == 0 ? state.ledger : 0);
  loader_.seek(step_);
  saved_step_ = step_;

  const auto rank = static_cast<size_t>(parts_.host.rank());
  if (snapshot.world_size == parts_.host.size() && snapshot.ranks.size() > rank) {
    const NamedTensors& own = snapshot.ranks[rank];
    restore_local_buffers(model, own);
    for (const auto& [name, tensor] : generators(parts_.device)) {
      const at::Tensor* saved = find(own, name);
      if (!saved) continue;  // saved on another kind of device
      at::Generator generator =
          at::globalContext().defaultGenerator(name == "rng.cpu" ? at::Device(at::kCPU) : parts_.device);
      generator.set_state(*saved);
    }
    if (const at::Tensor* seen = find(own, "samples_seen")) samples_seen_ = seen->item<int64_t>();
  }
  protect_best();
}

// What evaluations decided so far, as far as it is about the metric and the schedule of now.
void Trainer::resume_watch(const TrainingState& state) {
  if (parts_.config.schedule.name == config::ScheduleName::kPlateau) plateau_ = state.plateau;
  if (state.metric == watched_.name) {
    watch_ = state.watch;
    return;
  }
  plateau_ = {.factor = plateau_.factor};  // the rate stays
  log::info(str("train.metric is ", watched_.name, " now, no longer ", state.metric,
                ": best checkpoint, early stop and plateau begin anew"));
}

void Trainer::protect_best() {
  if (parts_.checkpoints && parts_.config.checkpoint.keep_best && watch_.best_step >= 0)
    parts_.checkpoints->protect(watch_.best_step);
}

}  // namespace dtrain::train
