// `dtrain [train]`: the composition root of a training run. It names every concrete class, in the order of start-up.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>

#include "checkpoint/store.h"
#include "cli/banner.h"
#include "cli/commands.h"
#include "cli/inference_options.h"
#include "cli/launch.h"
#include "cli/quickstart.h"
#include "cli/run_folder.h"
#include "cli/run_plot.h"
#include "cli/signals.h"
#include "config/load.h"
#include "config/model_defaults.h"
#include "core/log.h"
#include "core/moving_files.h"
#include "core/strings.h"
#include "data/hdf5/file_store.h"
#include "data/loader/sample_check.h"
#include "data/order/splits.h"
#include "diagnose/verdict.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "dist/make_communicator.h"
#include "dist/watchdog.h"
#include "models/models.h"
#include "models/state.h"
#include "monitoring/sinks.h"
#include "train/content_transfer.h"
#include "train/determinism.h"
#include "train/overfit.h"
#include "train/phases.h"
#include "train/precision.h"
#include "train/trainer.h"
#include "train/training_state.h"

namespace dtrain::cli {
namespace {

struct Request {
  config::Loaded loaded;
  bool dry_run = false;
};

std::vector<RankPlace> gather_places(dist::Communicator& host, const RankPlace& mine) {
  std::vector<RankPlace> places;
  for (const std::string& theirs : dist::all_gather_object(host, to_json(mine)))
    places.push_back(place_from_json(theirs));
  return places;
}

std::vector<diagnose::PhaseSeconds> gather_phases(dist::Communicator& host, const diagnose::PhaseSeconds& mine) {
  return dist::all_gather_object(host, mine);
}

// The resolved configuration of this run: on a resume, the saved one with what was given now laid over it.
config::Config resolve(Request& request, const std::optional<checkpoint::Content>& content) {
  if (!content) return request.loaded.config;
  const config::Config saved =
      config::from_yaml(train::from_json(content->state_json).config_yaml, "the checkpoint's config");
  config::Config merged = saved;
  config::copy_keys(request.loaded.config, merged, request.loaded.given);
  if (merged.train.global_batch == 0) merged.train.global_batch = train::from_json(content->state_json).global_batch;
  merged.run = request.loaded.config.run;
  if (std::count(request.loaded.given.begin(), request.loaded.given.end(), "train.accumulate") == 0)
    merged.train.accumulate = 0;  // derived anew for this world size
  const std::vector<std::string> fixed = config::fixed_differences(saved, merged);
  if (!fixed.empty()) {
    throw ConfigError(str("a resumed run keeps ", join(fixed, ", "), ": leave them out, or start a new run"));
  }
  for (const std::string& difference : config::differences(saved, merged)) log::info("resumed with " + difference);
  return merged;
}

// Of the same bytes another split may have been made: then what was trained on could be tested on.
void keep_data(const train::TrainingState& saved, const data::Store& store, const data::Splits& splits) {
  const std::string& file = store.path().string();
  if (saved.data_checksum != store.schema().checksum) {
    throw ConfigError(
        str("a resumed run keeps its data: ", file, " has another checksum than the data of the checkpoint"));
  }
  if (saved.splits_checksum != data::checksum(splits)) {
    throw ConfigError(str("a resumed run keeps its data: ", file,
                          " has the samples of the checkpoint's data, divided otherwise into training, validation and "
                          "test: start a new run"));
  }
}

int train(Launched& launched, Request& request) {
  const dist::World& world = launched.world;
  dist::Communicator& host = launched.host;
  // Which run, and from where: rank 0 knows.
  RunPlan plan;
  std::optional<checkpoint::Content> content;
  if (!request.dry_run) {
    dist::agree_on_rank0(host, [&] {
      plan = plan_run(request.loaded.config);
      if (plan.checkpoint) content = checkpoint::Store::load(*plan.checkpoint);
    });
    plan.name = dist::broadcast_object(host, plan.name);
    plan.folder = std::filesystem::path(request.loaded.config.run.folder) / plan.name;
    content = train::broadcast_content(host, content);
  }

  config::Config config;
  std::unique_ptr<data::Store> store;
  data::Splits splits;
  std::unique_ptr<tasks::Task> task;
  train::BatchArithmetic batches;
  train::Precision precision{};
  std::vector<std::string> initial;
  dist::agree(host, [&] {
    config = resolve(request, content);
    config.run.name = plan.name;
    config.model.name = config::network_of(config);  // what is saved must not change with a later default
    if (config.data.file.empty() && world.local_rank == 0) make_quickstart_data(config, launched.cores);
  });
  dist::agree(host, [&] {
    if (config.data.file.empty()) config.data.file = quickstart_file(config).string();
    store = data::open_file(config.data.file);
    splits = data::splits(*store, config.data.val_share, config.train.seed);
    task = tasks::make_task(config, tasks::facts_of(*store, splits.train));
    task->check(*store);
    if (!config.data.skips_bad_samples()) data::check_samples(*store, task->samples());
    if (splits.train.empty()) throw DataError(str(config.data.file, " has no training samples"));
    train::watched_metric(*task, config.train.metric);
    train::check_phases(*task, config);
    batches = train::batch_arithmetic(config.train, world.size, static_cast<int64_t>(splits.train.size()));
    if (config.train.overfit_batches > 0) {
      splits = train::overfit_splits(splits, config.train.overfit_batches * batches.global_batch, config.train.seed);
      batches = train::batch_arithmetic(config.train, world.size, static_cast<int64_t>(splits.train.size()));
    }
    const int64_t epochs = (batches.total_steps + batches.steps_per_epoch - 1) / batches.steps_per_epoch;
    const std::string cut_short = task->check_epochs(epochs, /*by_max_steps=*/epochs < config.train.epochs);
    if (world.rank == 0 && !cut_short.empty()) log::warning(cut_short);
    const bool judges = config.train.patience > 0 || config.schedule.name == "plateau" || !config.train.metric.empty();
    if (splits.val.empty() && judges) {
      throw ConfigError(str(config.data.file, " has no validation split, which train.patience, train.metric and ",
                            "schedule.name plateau need: set data.val_share above 0, or leave them out"));
    }
    if (content) keep_data(train::from_json(content->state_json), *store, splits);
    config.train.global_batch = batches.global_batch;
    config.train.accumulate = 0;  // follows from it, at any number of ranks
    precision = train::parse_precision(config.train.amp, launched.device.type(),
                                       train::device_info(launched.device).capability);
    if (!config.model.init.empty() && !content) {
      const checkpoint::TensorFile weights = checkpoint::read_safetensors(config.model.init);
      if (auto* network = dynamic_cast<models::Network*>(&task->model())) {
        initial = models::load_initial_weights(*network, weights);
      } else {
        models::load_all(task->model(), weights.tensors);
      }
    }
  });
  if (request.dry_run) {
    batches.total_steps = 1;
  }
  train::apply_precision(precision);
  train::apply_determinism(config.train.deterministic, config.device.cudnn_benchmark);
  torch::manual_seed(config.train.seed);
  models::convert_floating_point(task->model(), train::parameter_dtype(precision));
  task->model().to(launched.device);
  if (config.model.channels_last) models::set_channels_last(task->model());

  // From here on ranks wait for each other, over networks that may not work.
  dist::Watchdog watchdog(world, config.dist.timeout, [&](const std::string& message) {
    log::error(message);
    // The process ends, and with it all that is under way; NCCL's own abort may wait for the training thread.
    launched.mpi.abort(CommError("").exit_code());
  });
  // The disk may take longer than the watchdog's patience: to it, bytes that get there are progress.
  const std::unique_ptr<FileSystem> files = make_moving_files([&] { watchdog.alive(); });
  watchdog.progress("all_reduce", 0);
  const auto gradients = dist::make_gradient_communicator(config.dist, world, launched.device);
  // Batch norm's sums travel in the midst of forward and backward, beside the buckets: over a communicator of their
  // own.
  std::unique_ptr<dist::Communicator> statistics;
  if (config.train.sync_batch_norm && world.size > 1) {
    statistics = dist::make_gradient_communicator(config.dist, world, launched.device);
  }
  const int loader_threads =
      config.data.workers > 0 ? static_cast<int>(config.data.workers) : default_reader_threads(launched.cores);
  if (world.rank == 0 && world.size > static_cast<int64_t>(splits.train.size())) {
    log::warning(
        str("more ranks (", world.size, ") than training samples (", splits.train.size(), "): some ranks only wait"));
  }

  watchdog.progress("start", 0);
  // Metrics endpoint first: its address is in the banner and in the targets file.
  const train::DeviceInfo device = train::device_info(launched.device);
  monitoring::Sinks sinks;
  std::string address;
  if (config.metrics.enabled && !request.dry_run) {
    auto prometheus = monitoring::make_prometheus_sink(
        config.metrics, {.job_id = plan.name,
                         .rank = world.rank,
                         .local_rank = world.local_rank,
                         .node = world.node,
                         .build = build_labels(),
                         .job = {{"task", config.task},
                                 {"model", config.model.name},
                                 {"dataset", std::filesystem::path(config.data.file).filename().string()},
                                 {"world_size", str(world.size)}},
                         .gpu_pci_bus_id = device.pci_bus_id});
    address = prometheus->address();
    if (content) prometheus->restore(content->step, content->step * batches.global_batch);
    sinks.push_back(std::move(prometheus));
  }
  watchdog.progress("all_reduce", 0);
  const std::vector<RankPlace> places =
      gather_places(host, {world.node, device.name, device.pci_bus_id, address, device.memory_bytes, world.local_rank,
                           launched.cores, at::get_num_threads(), loader_threads});
  int64_t parameters = 0;
  for (const auto& parameter : task->model().parameters()) parameters += parameter.numel();
  const BannerFacts facts{
      .precision =
          config.train.amp == "auto" ? str(train::to_string(precision), " (auto)") : train::to_string(precision),
      .task = config.task,
      .network = config.model.name,
      .data_file = config.data.file,
      .run_folder = request.dry_run ? "" : plan.folder.string(),
      .config_source = request.loaded.source,
      .communicator = std::string(gradients->name()),
      .parameters = parameters,
      .train = static_cast<int64_t>(splits.train.size()),
      .val = static_cast<int64_t>(splits.val.size()),
      .test = static_cast<int64_t>(splits.test.size()),
      .batches = batches,
      .overfit_batches = config.train.overfit_batches,
      .resumed = content && plan.checkpoint ? str("step ", content->step, " of ", plan.checkpoint->string()) : "",
      .launcher_pid = world.launched ? ::getppid() : 0};

  std::unique_ptr<monitoring::TargetsFile> targets;
  watchdog.progress(world.rank == 0 ? "start" : "all_reduce", 0);  // the others wait for rank 0
  dist::agree_on_rank0(host, [&] {
    if (!request.dry_run) {
      create_run(plan, config, environment_json(facts, places), *files);
      std::vector<monitoring::TargetsFile::Target> addresses;
      for (size_t rank = 0; rank < places.size(); ++rank) {
        if (!places[rank].metrics_address.empty()) {
          addresses.push_back({places[rank].metrics_address, places[rank].node, static_cast<int>(rank)});
        }
      }
      if (!addresses.empty()) {
        targets = std::make_unique<monitoring::TargetsFile>(config.run.folder, plan.name, addresses);
        watchdog.alive();
      }
      const int64_t resumed = content ? content->step : 0;
      sinks.push_back(monitoring::make_jsonl_sink(plan.folder / "metrics.jsonl", resumed));
      sinks.push_back(monitoring::make_tensorboard_sink(plan.folder));
    }
    const bool bar = config.run.progress == "bar" ||
                     (config.run.progress == "auto" && !world.launched && ::isatty(STDERR_FILENO) != 0);
    sinks.push_back(monitoring::make_console_sink(bar));
    log::plain(banner(facts, places));
    for (const std::string& line : initial) log::info(line);
  });

  if (request.dry_run) {  // up to step 1, no further
    splits.val.clear();
    splits.test.clear();
  }
  const std::atomic<bool>& stop_requested = install_stop_signals();
  train::Outcome outcome;
  {
    std::optional<checkpoint::Store> checkpoints;
    if (world.rank == 0 && !request.dry_run) {
      checkpoints.emplace(plan.folder / "checkpoints", *files, config.checkpoint.keep_last);
    }
    try {
      train::Trainer trainer({.config = config,
                              .batches = batches,
                              .task = *task,
                              .store = *store,
                              .splits = splits,
                              .device = launched.device,
                              .precision = precision,
                              .loader_threads = loader_threads,
                              .gradients = *gradients,
                              .host = host,
                              .statistics = statistics.get(),
                              .checkpoints = checkpoints ? &*checkpoints : nullptr,
                              .sinks = sinks,
                              .stop_requested = stop_requested,
                              .progress = [&](const char* phase, int64_t step) { watchdog.progress(phase, step); }});
      if (content) dist::agree(host, [&] { trainer.resume(*content); });
      content.reset();
      outcome = trainer.run();
    } catch (const c10::OutOfMemoryError&) {  // of what lives as long as the run: buckets, moments
      throw train::out_of_memory(batches, launched.device);
    } catch (...) {
      for (const auto& sink : sinks) sink->state("failed");
      throw;
    }
    watchdog.close();
  }

  const diagnose::Verdict verdict = diagnose::verdict(gather_phases(host, outcome.phases), outcome.own_steps,
                                                      {.workers = loader_threads,
                                                       .cores = launched.cores,
                                                       .gpu = launched.device.is_cuda(),
                                                       .images = task->samples().kind == data::SampleSpec::Kind::kImage,
                                                       .hue = config.augment.hue > 0});
  dist::agree_on_rank0(host, [&] {
    if (!request.dry_run) write_run_plot(plan.folder, task->metrics());
    log::plain(verdict.text);
    char ledger[17];
    std::snprintf(ledger, sizeof ledger, "%016llx", static_cast<unsigned long long>(outcome.ledger));
    log::plain(
        str("finished: ", outcome.reason, " | ", outcome.own_steps, " steps in ", human_duration(outcome.seconds),
            std::isnan(outcome.best) ? "" : str(" | best ", outcome.metric, " ", fixed(outcome.best, 4)),
            std::isnan(outcome.padding_waste) ? "" : str(" | padding ", fixed(100 * outcome.padding_waste, 1), " %"),
            outcome.bad_samples == 0 ? "" : str(" | ", outcome.bad_samples, " bad samples left out"), " | ledger ",
            ledger, request.dry_run ? "" : " | " + plan.folder.string()));
  });
  for (const auto& sink : sinks) sink->state("finished");
  if (!request.dry_run && config.metrics.linger_seconds > 0 && outcome.exit_code == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(config.metrics.linger_seconds));
  }
  if (targets) targets->remove();
  log::close_file();
  return outcome.exit_code;
}

}  // namespace

int run_train(const Arguments& arguments) {
  Arguments rest;
  bool print_config = false;
  Request request;
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::fputs(train_help().c_str(), stdout);
      return 0;
    }
    if (argument == "--print-config") {
      print_config = true;
    } else if (argument == "--dry-run") {
      request.dry_run = true;
    } else {
      rest.push_back(argument);
    }
  }
  request.loaded = config::load(
      rest, ".", {.other_flags = {"--print-config", "--dry-run", "--help"}, .check_dataset = !print_config});
  if (print_config) {
    if (dist::launcher_rank_hint() == 0) std::fputs(config::to_yaml(request.loaded.config).c_str(), stdout);
    return 0;
  }
  remember_early_stop();
  return launch(request.loaded.config.device, [&](Launched& launched) { return train(launched, request); });
}

}  // namespace dtrain::cli
