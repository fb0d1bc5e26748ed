// A run in measurements: trainers with other batches, in place of the training.

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "job/training_job.h"

namespace dtrain::job {

std::unique_ptr<train::Trainer> TrainingJob::make_trainer(const Trial& trial) {
  static const std::atomic<bool> never_stops = false;
  trial_config_ = config_;
  trial_config_.train.batch_size = trial.batch_size;
  trial_config_.train.accumulate = trial.accumulate;
  trial_config_.train.global_batch = trial.batch_size * trial.accumulate * process_.world.size;
  if (trial.prefetch > 0) trial_config_.data.prefetch = trial.prefetch;
  const std::vector<int64_t>& ids = data_.splits.train;
  const int64_t rest = batches_.samples % trial_config_.train.global_batch;
  const int64_t samples =
      trial.whole_steps && rest < batches_.samples ? batches_.samples - rest : batches_.samples;
  trial_splits_.train.assign(ids.begin(), ids.begin() + samples);
  trial_batches_ = train::batch_arithmetic(trial_config_.train, process_.world.size, samples);
  train::TrainContext context =
      train_context(trial_config_, trial_batches_, trial_splits_, nullptr, never_stops);
  if (trial.loader_threads > 0) context.loader_threads = trial.loader_threads;
  context.recorder = trial.recorder;
  return std::make_unique<train::Trainer>(std::move(context));
}

void TrainingJob::keep_longest(int64_t samples) {
  std::vector<int64_t>& ids = data_.splits.train;
  ids = data::largest_samples(*data_.store, ids, samples);
  batches_.samples = static_cast<int64_t>(ids.size());
}

void TrainingJob::end_watch() { watchdog_->close(); }

void TrainingJob::throw_device_failure(const c10::Error& error) {
  const auto failure = device_failure(error, trial_batches_, "in a measured step");
  if (failure && failure->lost) end_process(failure->error);
  if (failure) throw failure->error;
}

}  // namespace dtrain::job
