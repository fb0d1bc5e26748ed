// What a run saves in a checkpoint, and how it continues from one. Part of trainer.h.

#include <torch/version.h>

#include "config/print.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "models/load_weights.h"
#include "train/norm_buffers.h"
#include "train/random_generators.h"
#include "train/trainer.h"
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

checkpoint::Snapshot Trainer::snapshot() {
  torch::nn::Module& model = context_.task.model();
  checkpoint::Snapshot snapshot;
  snapshot.step = step_;
  snapshot.world_size = context_.host.size();

  NamedTensors own = random_generators(context_.device);
  for (auto& buffer : copy_buffers(model, "local.")) own.push_back(std::move(buffer));
  own.emplace_back("samples_seen", at::tensor({consumption_.samples_seen()}, at::kLong));
  const auto states = dist::all_gather_object(context_.host, checkpoint::to_safetensors(own));
  const uint64_t ledger = consumption_.totals(context_.host, loader_.bad_ids()).ledger;
  const AveragedBuffers averaged(model, context_.host,
                                 consumption_.samples_seen());  // collective too
  if (context_.host.rank() != 0) return snapshot;

  snapshot.optimizer = phases_.state();
  for (auto& tensor : average_.state()) snapshot.optimizer.push_back(std::move(tensor));
  const WeightAverage::Scope weights(average_);
  for (const auto& item : model.named_parameters())
    snapshot.model.emplace_back(item.key(), on_cpu(item.value()));
  for (const auto& item : model.named_buffers())
    snapshot.model.emplace_back(item.key(), on_cpu(item.value()));
  snapshot.model_metadata = context_.task.metadata();
  for (size_t rank = 0; rank < states.size(); ++rank) {
    snapshot.ranks.push_back(
        checkpoint::from_safetensors(states[rank], str("state of rank ", rank)).tensors);
  }
  snapshot.state_json = to_json(
      {.step = step_,
       .global_batch = context_.batches.global_batch,
       .ledger = ledger,
       .metric = watched_.metric.name,
       .watch = watched_.watch,
       .plateau = watched_.plateau,
       .scaler = scaler_.state(),
       .evaluation = evaluated_step_ == step_ ? result_.validation : decltype(result_.validation)(),
       .evaluation_owed = watched_.evaluation_owed,
       .data_checksum = context_.store.schema().checksum,
       .splits_checksum = data::checksum(context_.splits),
       .data_meaning = data::meaning_of(context_.store),
       .data_modified_ns = context_.store.modified_ns(),
       .config_yaml = config::to_yaml(context_.config),
       .torch_version = TORCH_VERSION});
  return snapshot;
}

void Trainer::save(const char* why) {
  if (saved_step_ == step_ || context_.config.run.name.empty()) return;
  set_state(monitoring::RunState::kSaving);
  tracker_.wait_for_others();
  check_losses();  // a checkpoint of such a state would remove good ones
  tracker_.enter(measure::Phase::kCheckpoint);
  if (context_.host.rank() != 0) tracker_.wait_for_others();  // for rank 0, which writes
  const auto began = std::chrono::steady_clock::now();
  const checkpoint::Snapshot saved = snapshot();
  dist::agree_on_rank0(context_.host, [&] {
    if (context_.check_run_folder) context_.check_run_folder();
    try {
      const std::filesystem::path folder = context_.checkpoints->save(saved);
      log::info(str("saved ", folder.string(), " (", why, ")"));
    } catch (const OutputError&) {
      if (context_.check_run_folder)
        context_.check_run_folder();  // the reason, if the folder went while saving
      throw;
    }
  });
  tracker_.leave();
  saved_step_ = step_;
  triggers_.save.restart();
  const double seconds = seconds_since(began);
  const bool best = context_.config.checkpoint.keep_best && evaluated_step_ == step_;
  if (step_ < context_.batches.total_steps) (best ? saves_of_best_ : saves_).add(seconds);
  for (const auto& sink : context_.sinks) {
    sink->checkpoint_saved(step_, seconds);
    sink->state(monitoring::RunState::kTraining);
  }
}

std::function<void()> Trainer::keep_state() {
  torch::nn::Module& model = context_.task.model();
  NamedTensors weights;
  {
    const WeightAverage::Scope averaged(average_);  // load() takes the average from the module
    for (const auto& item : model.named_parameters())
      weights.emplace_back(item.key(), on_cpu(item.value()));
    for (const auto& item : model.named_buffers())
      weights.emplace_back(item.key(), on_cpu(item.value()));
  }
  return [this, weights, average = average_.state(), moments = phases_.optimizer().state(),
          scaler = scaler_.state(), random = random_generators(context_.device),
          consumption = consumption_, loss = loss_, own_steps = result_.own_steps,
          begun_step = begun_step_, step = step_]() mutable {
    models::load_all(context_.task.model(), weights);
    average_.load(average);
    phases_.optimizer().load(moments);
    scaler_.load(scaler);
    set_random_generators(random, context_.device);
    bad_losses_ = BadLosses(context_.device);
    consumption_ = consumption;
    loss_ = loss;
    result_.own_steps = own_steps;
    begun_step_ = begun_step;
    step_ = step;
    tracker_.set_step(step_);
    loader_.seek(step_);
  };
}

void Trainer::resume(const checkpoint::Snapshot& snapshot) {
  const TrainingState state = from_json(snapshot.state_json);
  models::load_all(context_.task.model(), snapshot.model);
  NamedTensors optimizer = snapshot.optimizer;
  average_.load(optimizer);
  phases_.load(optimizer);
  set_train_mode();
  scaler_.load(state.scaler);
  step_ = saved_step_ = state.step;
  skipped_ = SkippedSteps(state.scaler.skipped, step_);
  resume_watch(state);
  loader_.seek(step_);

  const auto rank = static_cast<size_t>(context_.host.rank());
  int64_t samples_seen = 0;
  if (snapshot.world_size == context_.host.size() && snapshot.ranks.size() > rank) {
    samples_seen = resume_rank(snapshot.ranks[rank]);
  }
  consumption_ = Consumption(rank == 0 ? state.ledger : 0, samples_seen);
  protect_best();
}

int64_t Trainer::resume_rank(const NamedTensors& own) {
  restore_local_buffers(context_.task.model(), own);
  set_random_generators(own, context_.device);
  const at::Tensor* seen = find(own, "samples_seen");
  return seen ? seen->item<int64_t>() : 0;
}

// What evaluations decided so far, as far as metric and schedule are still the same.
void Trainer::resume_watch(const TrainingState& state) {
  watched_.evaluation_owed = state.evaluation_owed;
  if (!state.evaluation.empty()) {
    result_.validation = state.evaluation;
    evaluated_step_ = step_;
  }
  if (context_.config.schedule.name == config::ScheduleName::kPlateau)
    watched_.plateau = state.plateau;
  if (state.metric == watched_.metric.name) {
    watched_.watch = state.watch;
    return;
  }
  watched_.plateau = {.factor = watched_.plateau.factor};  // the rate stays
  log::info(str("train.metric is ", watched_.metric.name, " now, no longer ", state.metric,
                ": best checkpoint, early stop and plateau start again"));
}

void Trainer::protect_best() {
  if (context_.checkpoints && context_.config.checkpoint.keep_best &&
      watched_.watch.best_step >= 0) {
    context_.checkpoints->protect(watched_.watch.best_step);
  }
}

}  // namespace dtrain::train
