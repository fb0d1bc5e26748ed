#include "tune/tuner.h"

#include <algorithm>
#include <chrono>

#include "core/quiet_log.h"
#include "core/stopwatch.h"
#include "device/device.h"
#include "dist/object_collectives.h"
#include "job/preset.h"
#include "train/batch_arithmetic.h"
#include "tune/memory_stage.h"
#include "tune/rate_stages.h"
#include "tune/session.h"

namespace dtrain::tune {
namespace {

// The run as it is given, and what of it may be changed.
void look(Session& session) {
  job::ProcessContext& process = session.process();
  dist::Communicator& host = process.host;
  config::Loaded& loaded = session.loaded();
  TuneResult& result = session.result;
  if (!loaded.config.device.preset.empty()) job::apply_preset(host, process.device, loaded);
  loaded.config.device.preset
      .clear();  // its values are there now, and must not take the place of those that are tried
  const job::PreparedRun run = [&] {
    const log::Quiet quiet;
    return job::plan_training(process, loaded, /*dry_run=*/true).open_data().make_task();
  }();
  const device::Properties device = device::properties(process.device);
  const std::vector<int> capabilities = dist::all_gather_object(host, device.capability);
  session.capability = *std::min_element(capabilities.begin(), capabilities.end());
  result.config = run.config;
  result.config.train.accumulate = 0;  // follows from the global batch
  result.device = process.device.is_cpu() ? "cpu" : device.name;
  result.ranks = process.world.size;
  result.global_batch = run.batches.global_batch;
  result.samples = run.batches.samples;
  result.keeps_global_batch = !session.options().free_global_batch;
  loaded.config = result.config;  // whatever a trial makes of it: the same run
  loaded.overruled = {};
  session.most = std::max<int64_t>(
      1, session.options().free_global_batch ? result.samples / result.ranks : result.share());
  // What ranks may have otherwise than rank 0 is tried as rank 0 has it: they wait for each other
  // in every trial.
  session.freedom = dist::broadcast_object(host, freedom_of(loaded));
  const int64_t prefetch = dist::broadcast_object(host, result.config.data.prefetch);
  const int workers = dist::broadcast_object(host, run.loader_threads);
  const train::Precision precision = dist::broadcast_object(host, run.precision);
  result.given = {.batch_size = std::min(result.config.train.batch_size, session.most),
                  .amp = *value_named<config::AmpMode>(train::to_string(precision)),
                  .channels_last = result.config.model.channels_last,
                  .checkpointing = result.config.model.checkpointing,
                  .wire = result.config.dist.wire,
                  .workers = workers,
                  .prefetch = prefetch};
  if (!session.freedom.batch_size) session.most = result.given.batch_size;
  result.found = result.given;
  session.budget = agree_on_budget(process, session.options().memory_budget);
  result.budget_bytes = static_cast<double>(session.budget.bytes);
  for (const std::string& kept : kept_by_flags(loaded))
    result.left_out.push_back(kept + ": given by a flag");
}

}  // namespace

int64_t TuneResult::share() const { return (std::min(global_batch, samples) + ranks - 1) / ranks; }

int64_t TuneResult::accumulate_of(int64_t batch_size) const {
  return keeps_global_batch_with(batch_size) ? train::micro_steps(share(), 1, batch_size) : 1;
}

int64_t TuneResult::micro_batch_of(int64_t batch_size) const {
  return keeps_global_batch_with(batch_size)
             ? train::micro_steps(share(), 1, accumulate_of(batch_size))
             : batch_size;
}

int64_t TuneResult::step_samples_of(int64_t batch_size) const {
  return keeps_global_batch_with(batch_size) ? std::min(global_batch, samples) : batch_size * ranks;
}

TuneResult tune(job::ProcessContext& process, const config::Loaded& loaded,
                const TuneOptions& options, const std::atomic<bool>& stop,
                const ReportProgress& report) {
  const auto began = std::chrono::steady_clock::now();
  Session session(process, loaded, options, stop, report);
  look(session);
  find_largest_batch(session);
  choose_network(session);
  choose_batch(session);
  choose_loader(session);
  compare(session);
  if (session.options().range_test) test_rates(session);
  session.leave_run();
  if (!session.result.interrupted) session.show_end();
  session.result.seconds = seconds_since(began);
  return std::move(session.result);
}

}  // namespace dtrain::tune
