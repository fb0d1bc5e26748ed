#include "job/step_trial.h"

#include <atomic>

namespace dtrain::job {
namespace {

config::Config config_of(const ConnectedRun& run, const StepTrialOptions& options) {
  config::Config config = run.config;
  if (options.change) options.change(config);
  config.train.batch_size = options.batch_size;
  config.train.accumulate = options.accumulate;
  config.train.global_batch = options.batch_size * options.accumulate * run.process.world.size;
  return config;
}

data::Splits splits_of(const ConnectedRun& run, int64_t global_batch, bool whole_steps) {
  const std::vector<int64_t>& ids = run.data.splits.train;
  const int64_t all = run.batches.samples, rest = all % global_batch;
  const int64_t samples = whole_steps && rest < all ? all - rest : all;
  data::Splits splits;
  splits.train.assign(ids.begin(), ids.begin() + samples);
  return splits;
}

}  // namespace

StepTrial::StepTrial(const ConnectedRun& run, const StepTrialOptions& options)
    : run_(run),
      options_(options),
      config_(config_of(run, options)),
      splits_(splits_of(run, config_.train.global_batch, options.whole_steps)),
      batches_(train::batch_arithmetic(config_.train, run.process.world.size,
                                       static_cast<int64_t>(splits_.train.size()))) {}

train::StepRunner& StepTrial::runner() {
  static const std::atomic<bool> never_stops = false;
  if (!runner_) {
    train::TrainContext context = run_.context(config_, batches_, splits_, no_sinks_, never_stops);
    context.loader_threads = reader_threads(config_.data.workers, run_.process.cores);
    context.recorder = options_.recorder;
    runner_.emplace(std::move(context));
  }
  return *runner_;
}

void StepTrial::throw_device_failure(const c10::Error& error) const {
  const auto failure = run_.device_failure(error, batches_, "in a measured step");
  if (failure && failure->lost) run_.end_process(failure->error);
  if (failure) throw failure->error;
}

}  // namespace dtrain::job
