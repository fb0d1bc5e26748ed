#include "tune/tuned_run.h"

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "device/device.h"
#include "dist/object_collectives.h"
#include "job/preset.h"
#include "job/training_job.h"

namespace dtrain::tune {
namespace {

// Where ranks differ, all try what rank 0 has: they wait for each other in every trial.
TunedSettings given_settings(const job::PreparedRun& run, int64_t most) {
  TunedSettings given = settings_of(run.config);
  given.batch_size = std::min(given.batch_size, most);
  given.amp = *value_named<config::AmpMode>(train::to_string(run.precision));
  given.workers = run.loader_threads;
  return dist::broadcast_object(run.process.host, given);
}

}  // namespace

TunedRun look_at(job::ProcessContext& process, config::Loaded loaded, const TuneOptions& options) {
  dist::Communicator& host = process.host;
  TunedRun tuned{.options = dist::broadcast_object(host, options)};
  tuned.options.memory_budget = options.memory_budget;  // each rank keeps its own
  if (!loaded.config.device.preset.empty()) job::apply_preset(host, process.device, loaded);
  // Its values are there now, and must not take the place of those that are tried.
  loaded.config.device.preset.clear();
  const job::PreparedRun run = [&] {
    const log::Quiet quiet;
    return job::plan_training(process, loaded, /*dry_run=*/true).open_data().make_task();
  }();
  tuned.capability = std::ranges::min(
      dist::all_gather_object(host, device::properties(process.device).capability));
  loaded.config = run.config;
  loaded.config.train.accumulate = 0;  // follows from the global batch
  loaded.overruled = {};               // whatever a trial makes of it: the same run
  tuned.device = process.device.is_cpu() ? "cpu" : run.device_properties.name;
  tuned.batches = {.ranks = process.world.size,
                   .global_batch = run.batches.global_batch,
                   .samples = run.batches.samples,
                   .keeps_global_batch = !tuned.options.free_global_batch};
  const StepBatches& batches = tuned.batches;
  tuned.most = std::max<int64_t>(
      1, tuned.options.free_global_batch ? batches.samples / batches.ranks : batches.share());
  tuned.freedom = dist::broadcast_object(host, freedom_of(loaded));
  tuned.given = given_settings(run, tuned.most);
  tuned.batches.given = tuned.given.batch_size;
  if (!tuned.freedom[row_of(&TunedSettings::batch_size)]) tuned.most = tuned.given.batch_size;
  tuned.budget = agree_on_budget(process, tuned.options.memory_budget);
  tuned.kept = kept_by_flags(loaded);
  tuned.loaded = std::move(loaded);
  return tuned;
}

}  // namespace dtrain::tune
