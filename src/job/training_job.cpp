#include "job/training_job.h"

#include <ATen/Context.h>

#include <algorithm>
#include <utility>

#include "catalog/catalog.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "job/placement.h"
#include "job/preset.h"
#include "job/quickstart.h"
#include "job/resume.h"
#include "job/same_start.h"
#include "job/single_samples.h"
#include "models/load_weights.h"
#include "models/network.h"
#include "tasks/samples.h"
#include "text/strings.h"
#include "train/broadcast_snapshot.h"
#include "train/metric_watch.h"
#include "train/schedule.h"
#include "train/training_state.h"

namespace dtrain::job {
namespace {

// A file that is named now is taken as it is; a resumed run's own may have to be looked for.
DataSet open_own_data(const PlannedRun& run) {
  const std::string& file = run.config.data.file;
  const bool given = std::ranges::count(run.loaded.given, "data.file") > 0;
  if (!run.snapshot || given) return job::open_data(run.process.prober, file, run.config);
  return open_data_of_run(run.process.prober, places_of(file, run.paths, run.paths.data),
                          train::from_json(run.snapshot->state_json).data_checksum, run.config);
}

train::BatchArithmetic arithmetic_of(const OpenedRun& run) {
  return train::batch_arithmetic(run.config.train, run.process.world.size,
                                 static_cast<int64_t>(run.data.splits.train.size()));
}

void check_task(PreparedRun& run) {
  const config::Config& config = run.config;
  data::Splits& splits = run.data.splits;
  check_data(*run.data.store, *run.task, config.data);
  if (splits.train.empty()) throw DataError(str(config.data.file, " has no training samples"));
  train::watched_metric(*run.task, config.train.metric);
  train::check_phases(*run.task, config);
  train::BatchArithmetic& batches = run.batches = arithmetic_of(run);
  if (config.train.overfit_batches > 0) {
    splits = train::overfit_splits(splits, config.train.overfit_batches * batches.global_batch,
                                   config.train.seed);
    batches = arithmetic_of(run);
  }
  run.epochs = (batches.total_steps + batches.steps_per_epoch - 1) / batches.steps_per_epoch;
  if (run.is_beyond_its_end()) return;  // what follows judges a training
  const std::string cut_short =
      run.task->check_epochs(run.epochs, /*by_max_steps=*/run.epochs < config.train.epochs);
  if (run.is_rank0() && !cut_short.empty()) log::warning(cut_short);
}

void check_splits(const PreparedRun& run) {
  const config::Config& config = run.config;
  const bool judges = config.train.patience > 0 ||
                      config.schedule.name == config::ScheduleName::kPlateau ||
                      !config.train.metric.empty();
  if (run.data.splits.val.empty() && judges) {
    throw ConfigError(
        str(config.data.file, " has no validation split, which train.patience, train.metric and ",
            "schedule.name plateau need: set data.val_share above 0, or leave them out"));
  }
  if (run.snapshot) check_same_data(*run.snapshot, *run.data.store, run.data.splits);
  if (!run.data.splits.untrained_classes.empty() && run.is_rank0())
    log::warning(untrained_classes(run.data));
}

// Returns what to say of it.
std::vector<std::string> load_initial_weights(torch::nn::Module& model, const std::string& file) {
  checkpoint::TensorFile weights = checkpoint::read_safetensors(file);
  models::Unwrapped given = models::unwrapped(model, weights.tensors);
  models::check_finite(model, weights.tensors, file, given.prefix);
  weights.tensors = std::move(given.tensors);
  std::vector<std::string> lines = std::move(given.notices);
  if (auto* network = dynamic_cast<models::Network*>(&model)) {
    const std::vector<std::string> more = models::load_initial_weights(*network, weights);
    lines.insert(lines.end(), more.begin(), more.end());
  } else {
    models::load_all(model, weights.tensors);
  }
  return lines;
}

// `whole`: the batches of the whole training.
void warn_of_warm_up(const PlacedRun& run, const train::BatchArithmetic& whole) {
  const config::Schedule& schedule = run.config.schedule;
  const std::string long_warm_up = train::long_warm_up(schedule, whole.total_steps);
  const bool rises = run.done_steps() < schedule.warmup_steps.of(whole.total_steps);
  if (rises && !long_warm_up.empty()) log::warning(long_warm_up);
  if (!run.snapshot) return;
  const config::Config before = saved_config(*run.snapshot).config;
  const int64_t total = train::batch_arithmetic(before.train, run.process.world.size,
                                                static_cast<int64_t>(run.data.splits.train.size()))
                            .total_steps;
  const std::string second = train::second_warm_up({before.schedule, total},
                                                   {schedule, whole.total_steps}, run.done_steps());
  if (!second.empty()) log::warning(second);
}

}  // namespace

PlannedRun plan_training(ProcessContext& process, config::Loaded loaded, bool dry_run) {
  dist::Communicator& host = process.host;
  PlannedRun run{.process = process, .loaded = std::move(loaded), .dry_run = dry_run};
  // It may resume
  check_same_start(host, process.world, run.loaded.config, dry_run, /*reads_init=*/false);
  if (!dry_run) {
    std::string paths = to_text(RunPaths{});
    dist::agree_on_rank0(host, [&] {
      run.plan = plan_run(run.loaded.config, /*may_start=*/!run.loaded.is_demo);
      if (!run.plan.checkpoint) return;
      run.snapshot = checkpoint::CheckpointStore::load(*run.plan.checkpoint);
      paths = to_text(
          run_paths_of(*run.plan.checkpoint, saved_config(*run.snapshot).config.run.folder));
    });
    share_name(host, run.loaded.config.run.folder, run.plan);
    run.snapshot = train::broadcast_snapshot(host, run.snapshot);
    run.paths = run_paths_from(dist::broadcast_object(host, paths));
  }
  if (!run.loaded.config.device.preset.empty() && !run.snapshot) {
    run.preset = apply_preset(host, process.device, run.loaded);
  }
  dist::agree(host, [&] {
    Resolved resolved = resolve(run.loaded, run.snapshot, process.world.size);
    config::Config& config = run.config = std::move(resolved.config);
    run.batch_decided_by = std::move(resolved.batch_decided_by);
    config.run.name = run.plan.name;
    if (config.run.resume != "auto")
      config.run.resume.clear();  // belongs to this start, not to the run that is saved
    // What is saved must not change with a later default.
    config.model.name = config::network_of(config);
  });
  // A resumed run keeps the keys that are not given now, and a value that is a default may be given
  // to some ranks only. One that starts reads model.init.
  if (run.snapshot || !run.config.model.init.empty()) {
    check_same_start(host, process.world, run.config, dry_run, /*reads_init=*/!run.snapshot);
  }
  return run;
}

OpenedRun PlannedRun::open_data() && {
  const bool generated = config.data.file.empty();
  dist::agree(process.host, [&] {
    if (generated && process.world.local_rank == 0) make_quickstart_data(config, process.cores);
  });
  DataSet data;
  dist::agree(process.host, [&] {
    if (generated) config.data.file = quickstart_file(config).string();
    data = open_own_data(*this);
  });
  check_same_data(process.host, process.world, config.data.file, data.store->schema().checksum);
  const int loader_threads = reader_threads(config.data.workers, process.cores);
  return {std::move(*this), std::move(data), loader_threads};
}

PreparedRun OpenedRun::make_task() && {
  PreparedRun run{std::move(*this)};
  dist::agree(run.process.host, [&] {
    if (const auto& row = catalog::row(run.config.task); row.target != catalog::Target::kAny)
      tasks::schema_of(*run.data.store, row.name);  // the task is made with facts of its own data
    run.task =
        tasks::make_task(run.config, tasks::facts_of(*run.data.store, run.data.splits.train));
    check_task(run);
    check_splits(run);
    run.global_batch_given = run.config.train.global_batch > 0;
    run.config.train.global_batch = run.batches.global_batch;
    run.config.train.accumulate = 0;  // follows from it, at any number of ranks
    run.device_properties = device::properties(run.process.device);
    run.precision = choose_precision(run.config.train.amp, run.process.device);
    torch::nn::Module& model = run.task->model();
    if (!run.config.model.init.empty() && !run.snapshot)
      run.initial = load_initial_weights(model, run.config.model.init);
    if (run.snapshot && run.plan.checkpoint)  // rank 0
      check_finite(*run.snapshot, *run.plan.checkpoint, model);
  });
  if (run.dry_run) run.batches.total_steps = 1;
  return run;
}

int PreparedRun::leave_unchanged() const {
  const config::Train& train = config.train;
  const bool by_steps = train.max_steps > 0 && train.max_steps == batches.total_steps;
  log::plain(str(plan.existed ? "run " + plan.folder.string() : "the checkpoint", " is at step ",
                 done_steps(), ", already beyond step ", batches.total_steps, ", where train.",
                 by_steps ? "max_steps " : "epochs ", by_steps ? train.max_steps : train.epochs,
                 " ends it: nothing is changed"));
  return 0;
}

void PreparedRun::keep_longest(int64_t samples) {
  std::vector<int64_t>& ids = data.splits.train;
  ids = data::largest_samples(*data.store, ids, samples);
  batches.samples = static_cast<int64_t>(ids.size());
}

PlacedRun PreparedRun::place_on_device() && {
  choose_algorithms(config, task->samples());
  at::manual_seed(config.train.seed);
  job::place_on_device(*task, precision, process.device, config.model.channels_last);
  return {std::move(*this)};
}

PlacedRun PlacedRun::check_training() && {
  const train::BatchArithmetic whole = arithmetic_of(*this);  // a dry run ends after its first step
  std::string warning;
  dist::agree(process.host, [&] {
    warning = check_single_samples(*task, {.config = config,
                                           .data = data,
                                           .batches = whole,
                                           .precision = precision,
                                           .device = process.device,
                                           .keeps_global_batch = global_batch_given,
                                           .resumed = snapshot.has_value()});
  });
  if (is_rank0()) {
    if (!warning.empty()) log::warning(warning);
    warn_of_warm_up(*this, whole);
  }
  return std::move(*this);
}

}  // namespace dtrain::job
