// What a run saves, and how it continues. Part of trainer.h.

#include <torch/version.h>

#include "config/print.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/agree.h"
#include "text/strings.h"
#include "train/trainer.h"
#include "train/training_state.h"

namespace dtrain::train {

// What evaluations decided, and what a resume compares with its own configuration and data.
void Trainer::add_decisions(TrainingState& state) const {
  state.global_batch = context_.batches.global_batch;
  state.metric = watched_.metric.name;
  state.watch = watched_.watch;
  state.plateau = watched_.plateau;
  state.evaluation_owed = watched_.evaluation_owed;
  state.data_checksum = context_.store.schema().checksum;
  state.splits_checksum = data::checksum(context_.splits);
  state.data_meaning = data::meaning_of(context_.store.origin());
  state.data_modified_ns = context_.store.origin().modified_ns();
  state.config_yaml = config::to_yaml(context_.config);
  state.torch_version = TORCH_VERSION;
  if (watched_.evaluated_step == steps_.steps()) state.evaluation = result_.validation;
}

void Trainer::save(const char* why) {
  if (saved_step_ == steps_.steps() || context_.config.run.name.empty()) return;
  observer_.set_state(monitoring::LiveState::kSaving);
  steps_.tracker().wait_for_others();
  observer_.check_losses();  // a checkpoint of such a state would remove good ones
  steps_.tracker().enter(measure::Phase::kCheckpoint);
  if (context_.host.rank() != 0) steps_.tracker().wait_for_others();  // for rank 0, which writes
  const auto began = std::chrono::steady_clock::now();
  TrainingState state;
  checkpoint::Snapshot saved = steps_.snapshot(state);
  add_decisions(state);
  saved.state_json = to_json(state);
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
  steps_.tracker().leave();
  saved_step_ = steps_.steps();
  triggers_.save.restart();
  const double seconds = seconds_since(began);
  const bool best =
      context_.config.checkpoint.keep_best && watched_.evaluated_step == steps_.steps();
  observer_.saved(seconds, best);
}

void Trainer::resume(const checkpoint::Snapshot& snapshot) {
  const TrainingState state = from_json(snapshot.state_json);
  steps_.resume(snapshot, state);
  observer_.resume(state.scaler.skipped, state.step);
  if (!context_.branches) saved_step_ = state.step;
  resume_watch(state);
  protect_best();
}

// What evaluations decided so far, as far as metric and schedule are still the same.
void Trainer::resume_watch(const TrainingState& state) {
  watched_.evaluation_owed = state.evaluation_owed;
  if (!state.evaluation.empty()) {
    result_.validation = state.evaluation;
    watched_.evaluated_step = steps_.steps();
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
