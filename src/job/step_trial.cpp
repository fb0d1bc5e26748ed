#include "job/step_trial.h"

#include <atomic>

namespace dtrain::job {
namespace {

const std::atomic<bool> kNeverStops = false;

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
    : config_(config_of(run, options)),
      splits_(splits_of(run, config_.train.global_batch, options.whole_steps)),
      batches_(train::batch_arithmetic(config_.train, run.process.world.size,
                                       static_cast<int64_t>(splits_.train.size()))),
      context_(run.context(config_, batches_, splits_, no_sinks_, kNeverStops)) {
  context_.loader_threads = reader_threads(config_.data.workers, run.process.cores);
  context_.recorder = options.recorder;
}

train::StepRunner& StepTrial::runner() {
  if (!runner_) runner_.emplace(context_);
  return *runner_;
}

}  // namespace dtrain::job
