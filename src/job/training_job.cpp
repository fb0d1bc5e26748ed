#include "job/training_job.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "config/print.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/number_text.h"
#include "core/process_info.h"
#include "core/stopwatch.h"
#include "core/strings.h"
#include "core/vector_set.h"
#include "device/device.h"
#include "diagnose/verdict.h"
#include "dist/agree.h"
#include "dist/failure.h"
#include "dist/link_probe.h"
#include "dist/make_communicator.h"
#include "dist/object_collectives.h"
#include "dist/world.h"
#include "job/batch_choice.h"
#include "job/memory_advice.h"
#include "job/page_history.h"
#include "job/placement.h"
#include "job/preset.h"
#include "job/quickstart.h"
#include "job/resume.h"
#include "job/run_report.h"
#include "job/same_start.h"
#include "job/signals.h"
#include "job/single_samples.h"
#include "models/load_weights.h"
#include "models/network.h"
#include "monitoring/console_sink.h"
#include "monitoring/jsonl_sink.h"
#include "monitoring/tensorboard_sink.h"
#include "train/bf16_gain.h"
#include "train/broadcast_snapshot.h"
#include "train/schedule.h"
#include "train/step_agreement.h"
#include "train/training_state.h"

namespace dtrain::job {
namespace {

constexpr double kHeadroomSeconds = 3;

std::vector<RankPlace> gather_places(dist::Communicator& host, const RankPlace& mine) {
  std::vector<RankPlace> places;
  for (const std::string& theirs : dist::all_gather_object(host, to_json(mine))) {
    places.push_back(place_from_json(theirs));
  }
  return places;
}

// Whom SIGUSR1 reaches all ranks through: mpirun, or the `dtrain launch` that started it, which
// would take the end of a job that it did not ask to stop for a preemption.
pid_t process_to_signal() {
  const pid_t launcher = ::getppid();
  const std::optional<ProcessInfo> info = process_info(launcher);
  return info && program_of(info->parent) == program_of(::getpid()) ? info->parent : launcher;
}

// Without a report the run is as complete as with it.
void write_report(data::ProbeProcess& prober, const std::filesystem::path& run,
                  const std::string& code) {
  try {
    write_own_report(prober, run, code);
  } catch (...) {
    log::warning(str("the report of ", run.string(),
                     " could not be written: ", dist::describe(std::current_exception()).message,
                     ". `dtrain report` writes it later"));
  }
}

}  // namespace

TrainingJob::TrainingJob(ProcessContext& process, config::Loaded loaded, bool dry_run)
    : process_(process), loaded_(std::move(loaded)), dry_run_(dry_run) {}

// The watchdog outlives the communicators, and must not ask one that is being destroyed: ending it
// may take long.
TrainingJob::~TrainingJob() {
  const std::lock_guard lock(asked_mutex_);
  asked_.clear();
}

void TrainingJob::plan() {
  dist::Communicator& host = process_.host;
  check_same_start(host, process_.world, loaded_.config, dry_run_,
                   /*reads_init=*/false);  // it may resume
  if (!dry_run_) {
    std::string paths = to_text(RunPaths{});
    dist::agree_on_rank0(host, [&] {
      plan_ = plan_run(loaded_.config, /*may_start=*/!loaded_.is_demo);
      if (!plan_.checkpoint) return;
      snapshot_ = checkpoint::Store::load(*plan_.checkpoint);
      paths = to_text(run_paths_of(*plan_.checkpoint, saved_config(*snapshot_).config.run.folder));
    });
    share_name();
    snapshot_ = train::broadcast_snapshot(host, snapshot_);
    paths_ = run_paths_from(dist::broadcast_object(host, paths));
  }
  if (!loaded_.config.device.preset.empty() && !snapshot_) {
    preset_ = apply_preset(host, process_.device, loaded_);
  }
  dist::agree(host, [&] {
    Resolved resolved = resolve(loaded_, snapshot_, process_.world.size);
    config_ = std::move(resolved.config);
    batch_decided_by_ = std::move(resolved.batch_decided_by);
    config_.run.name = plan_.name;
    if (config_.run.resume != "auto")
      config_.run.resume.clear();  // of this start, not of the run that is saved
    config_.model.name =
        config::network_of(config_);  // what is saved must not change with a later default
  });
  // A resumed run keeps the keys that are not given now, and a value that is a default may be given
  // to some ranks only. One that starts reads model.init.
  if (snapshot_ || !config_.model.init.empty()) {
    check_same_start(host, process_.world, config_, dry_run_, /*reads_init=*/!snapshot_);
  }
}

void TrainingJob::open_data() {
  const bool generated = config_.data.file.empty();
  dist::agree(process_.host, [&] {
    if (generated && process_.world.local_rank == 0) make_quickstart_data(config_, process_.cores);
  });
  dist::agree(process_.host, [&] {
    if (generated) config_.data.file = quickstart_file(config_).string();
    data_ = open_own_data();
  });
  check_same_data(process_.host, process_.world, config_.data.file, data_.store->schema().checksum);
  loader_threads_ = reader_threads(config_.data.workers, process_.cores);
}

// A file that is named now is taken as it is; a resumed run's own may have to be looked for.
DataSet TrainingJob::open_own_data() const {
  const std::string& file = config_.data.file;
  const bool given = std::count(loaded_.given.begin(), loaded_.given.end(), "data.file") > 0;
  if (!snapshot_ || given) return job::open_data(process_.prober, file, config_);
  return open_data_of_run(process_.prober, places_of(file, paths_, paths_.data),
                          train::from_json(snapshot_->state_json).data_checksum, config_);
}

void TrainingJob::make_task() {
  dist::agree(process_.host, [&] {
    task_ = tasks::make_task(config_, tasks::facts_of(*data_.store, data_.splits.train));
    check_task();
    check_splits();
    global_batch_given_ = config_.train.global_batch > 0;
    config_.train.global_batch = batches_.global_batch;
    config_.train.accumulate = 0;  // follows from it, at any number of ranks
    device_ = device::properties(process_.device);
    precision_ = choose_precision(config_.train.amp, process_.device);
    if (!config_.model.init.empty() && !snapshot_) load_initial_weights();
    if (snapshot_ && plan_.checkpoint)
      check_finite(*snapshot_, *plan_.checkpoint, task_->model());  // rank 0
  });
  if (dry_run_) batches_.total_steps = 1;
}

void TrainingJob::check_task() {
  data::Splits& splits = data_.splits;
  const auto arithmetic = [&] {
    return train::batch_arithmetic(config_.train, process_.world.size,
                                   static_cast<int64_t>(splits.train.size()));
  };
  check_data(*data_.store, *task_, config_.data);
  if (splits.train.empty()) throw DataError(str(config_.data.file, " has no training samples"));
  train::watched_metric(*task_, config_.train.metric);
  train::check_phases(*task_, config_);
  batches_ = arithmetic();
  if (config_.train.overfit_batches > 0) {
    splits = train::overfit_splits(splits, config_.train.overfit_batches * batches_.global_batch,
                                   config_.train.seed);
    batches_ = arithmetic();
  }
  epochs_ = (batches_.total_steps + batches_.steps_per_epoch - 1) / batches_.steps_per_epoch;
  if (is_beyond_its_end()) return;  // what follows judges a training
  const std::string cut_short =
      task_->check_epochs(epochs_, /*by_max_steps=*/epochs_ < config_.train.epochs);
  if (is_rank0() && !cut_short.empty()) log::warning(cut_short);
}

bool TrainingJob::is_beyond_its_end() const {
  return snapshot_ && snapshot_->step > batches_.total_steps;
}

int TrainingJob::leave_unchanged() const {
  const config::Train& train = config_.train;
  const bool by_steps = train.max_steps > 0 && train.max_steps == batches_.total_steps;
  log::plain(str(plan_.existed ? "run " + plan_.folder.string() : "the checkpoint", " is at step ",
                 snapshot_->step, ", already beyond step ", batches_.total_steps, ", where train.",
                 by_steps ? "max_steps " : "epochs ", by_steps ? train.max_steps : train.epochs,
                 " ends it: nothing is changed"));
  return 0;
}

void TrainingJob::check_splits() const {
  const config::Config& config = config_;
  const bool judges = config.train.patience > 0 ||
                      config.schedule.name == config::ScheduleName::kPlateau ||
                      !config.train.metric.empty();
  if (data_.splits.val.empty() && judges) {
    throw ConfigError(
        str(config.data.file, " has no validation split, which train.patience, train.metric and ",
            "schedule.name plateau need: set data.val_share above 0, or leave them out"));
  }
  if (snapshot_) check_same_data(*snapshot_, *data_.store, data_.splits);
  if (!data_.splits.untrained_classes.empty() && is_rank0()) log::warning(untrained_classes(data_));
}

void TrainingJob::load_initial_weights() {
  torch::nn::Module& model = task_->model();
  checkpoint::TensorFile weights = checkpoint::read_safetensors(config_.model.init);
  models::Unwrapped given = models::unwrapped(model, weights.tensors);
  models::check_finite(model, weights.tensors, config_.model.init, given.prefix);
  weights.tensors = std::move(given.tensors);
  initial_ = std::move(given.notices);
  if (auto* network = dynamic_cast<models::Network*>(&model)) {
    const std::vector<std::string> lines = models::load_initial_weights(*network, weights);
    initial_.insert(initial_.end(), lines.begin(), lines.end());
  } else {
    models::load_all(model, weights.tensors);
  }
}

void TrainingJob::place_on_device() {
  choose_algorithms(config_, task_->samples());
  at::manual_seed(config_.train.seed);
  job::place_on_device(*task_, precision_, process_.device, config_.model.channels_last);
}

void TrainingJob::check_training() {
  // Of the whole training: a dry run ends after its first step.
  const train::BatchArithmetic whole = train::batch_arithmetic(
      config_.train, process_.world.size, static_cast<int64_t>(data_.splits.train.size()));
  std::string warning;
  dist::agree(process_.host, [&] {
    warning = check_single_samples(*task_, {.config = config_,
                                            .data = data_,
                                            .batches = whole,
                                            .precision = precision_,
                                            .device = process_.device,
                                            .keeps_global_batch = global_batch_given_,
                                            .resumed = snapshot_.has_value()});
  });
  if (is_rank0() && !warning.empty()) log::warning(warning);
  const int64_t done = snapshot_ ? snapshot_->step : 0;
  const std::string long_warm_up = train::long_warm_up(config_.schedule, whole.total_steps);
  const bool rises = done < config_.schedule.warmup_steps.of(whole.total_steps);
  if (is_rank0() && rises && !long_warm_up.empty()) log::warning(long_warm_up);
  if (is_rank0() && snapshot_) {
    const config::Config before = saved_config(*snapshot_).config;
    const int64_t total = train::batch_arithmetic(before.train, process_.world.size,
                                                  static_cast<int64_t>(data_.splits.train.size()))
                              .total_steps;
    const std::string second = train::second_warm_up({before.schedule, total},
                                                     {config_.schedule, whole.total_steps}, done);
    if (!second.empty()) log::warning(second);
  }
}

void TrainingJob::connect() {
  const auto end_job = [this](const std::string& message) {
    log::error(message);  // first: it is known, and the answers are not
    for (const std::string& failure : failed_communicators()) log::error(failure);
    // Ends the process: NCCL's own abort may wait for the training thread.
    process_.mpi.abort(CommError("").exit_code());
  };
  watchdog_ = std::make_unique<dist::Watchdog>(process_.world, config_.dist.timeout, end_job);
  // The disk may take longer than dist.timeout: bytes that reach it count as progress.
  files_ = make_moving_files(
      [this] { watchdog_->alive(); },
      "free some space, or move the run folder to another disk and name that with --run.folder");
  watchdog_->progress("all_reduce", 0);
  // Batch norm's sums travel during forward and backward, beside the buckets: over a communicator
  // of their own.
  const bool shares_statistics = config_.train.sync_batch_norm && process_.world.size > 1;
  if (shares_statistics) dist::order_nccl_communicators();
  sharing_ = sharing_of_own_device(process_);
  gradients_ = dist::make_gradient_communicator(process_.host, config_.dist, process_.world,
                                                process_.device);
  if (shares_statistics) {
    statistics_ = dist::make_gradient_communicator(process_.host, config_.dist, process_.world,
                                                   process_.device);
  }
  {
    const std::lock_guard lock(asked_mutex_);
    asked_ = {{"gradients", gradients_.get()}, {"statistics", statistics_.get()}};
  }
  watchdog_->ask([this] {
    if (!failed_communicators().empty())
      throw CommError("it waits in a communicator that has failed");
  });
  const size_t samples = data_.splits.train.size();
  if (is_rank0() && static_cast<size_t>(process_.world.size) > samples) {
    log::warning(str("more ranks (", process_.world.size, ") than training samples (", samples,
                     "): some ranks only wait"));
  }
  const std::string slow =
      dist::describe_slow_links(dist::probe_links(process_.world), process_.world.nodes);
  if (!slow.empty()) log::warning(slow);
  watchdog_->progress("start", 0);
}

// A stall of the whole job may be no more than the consequence of a dead link, which one of them
// alone may know of.
std::vector<std::string> TrainingJob::failed_communicators() {
  const std::lock_guard lock(asked_mutex_);
  std::vector<std::string> failures;
  for (const auto& [name, communicator] : asked_) {
    try {
      if (communicator != nullptr) communicator->check();
    } catch (...) {
      failures.push_back(str("the communicator of the ", name,
                             " says: ", dist::describe(std::current_exception()).message));
    }
  }
  return failures;
}

// Measured on rank 0 while the other ranks wait.
std::string TrainingJob::precision_advice() const {
  if (!train::should_measure_bf16(config_.train.amp, process_.device.type(),
                                  has_bfloat16_products()))
    return "";
  return train::advise_bf16(train::measure_bf16_gain(task_->samples().kind, config_.model.hidden));
}

BannerFacts TrainingJob::facts() const {
  int64_t parameters = 0;
  for (const auto& parameter : task_->model().parameters()) parameters += parameter.numel();
  const std::string precision = train::to_string(precision_);
  return {.precision =
              config_.train.amp == config::AmpMode::kAuto ? str(precision, " (auto)") : precision,
          .task = str(config_.task),
          .network = str(config_.model.name),
          .data_file = data_.store->path().string(),
          .module_file = config_.model.file,
          .run_folder = dry_run_ ? "" : plan_.folder.string(),
          .config_source = snapshot_ ? "that of the checkpoint" : loaded_.source,
          .config_hash = config::hash(config_),
          .communicator = std::string(gradients_->name()),
          .parameters = parameters,
          .train = static_cast<int64_t>(data_.splits.train.size()),
          .val = static_cast<int64_t>(data_.splits.val.size()),
          .test = static_cast<int64_t>(data_.splits.test.size()),
          .batches = batches_,
          .metrics = task_->metrics(),
          .metric = train::watched_metric(*task_, config_.train.metric).name,
          .data_share = config_.data.share,
          .batch_decided_by = batch_decided_by_,
          .preset = preset_,
          .precision_advice = precision_advice(),
          .rate_advice =
              snapshot_ ? "" : rate_advice(loaded_, config_.optimizer.lr, batches_.global_batch),
          .overfit_batches = config_.train.overfit_batches,
          .resumed = snapshot_ && plan_.checkpoint
                         ? str("step ", snapshot_->step, " of ", plan_.checkpoint->string())
                         : "",
          .launcher_pid = process_.world.launched ? process_to_signal() : 0};
}

// Rank 0 knows it.
void TrainingJob::share_name() {
  plan_.name = dist::broadcast_object(process_.host, plan_.name);
  plan_.folder = std::filesystem::path(loaded_.config.run.folder) / plan_.name;
}

void TrainingJob::claim_name() {
  check_password_file();  // an error must not leave an empty folder
  if (dry_run_) return;
  // A stop from here on saves after step 1: a run folder without a checkpoint would only be in
  // the way.
  install_stop_signals();
  watchdog_->progress(is_rank0() ? "start" : "all_reduce", 0);
  dist::agree_on_rank0(process_.host, [&] {
    if (plan_.generated) claim_generated_name(plan_, *files_);
  });
  share_name();
  config_.run.name = plan_.name;
}

void TrainingJob::announce() {
  const dist::World& world = process_.world;
  watchdog_->progress("all_reduce", 0);
  const std::vector<RankPlace> places =
      gather_places(process_.host, {world.node, device_.name, device_.pci_bus_id, metrics_address_,
                                    device_.memory_bytes, world.local_rank, process_.cores,
                                    process_.threads, loader_threads_});
  complete_page(places);
  watchdog_->progress(is_rank0() ? "start" : "all_reduce", 0);  // the others wait for rank 0
  dist::agree_on_rank0(process_.host, [&] {
    const BannerFacts known = facts();
    if (!dry_run_) {
      create_run(plan_, config_, environment_json(known, places), *files_);
      write_targets(places);
      sinks_.push_back(monitoring::make_jsonl_sink(plan_.folder / "metrics.jsonl",
                                                   snapshot_ ? snapshot_->step : 0));
      sinks_.push_back(monitoring::make_tensorboard_sink(plan_.folder));
      if (snapshot_ && live_page_ != nullptr) show_earlier(*live_page_, plan_.folder);
    }
    const bool bar = config_.run.progress == config::Progress::kBar ||
                     (config_.run.progress == config::Progress::kAuto && !world.launched &&
                      ::isatty(STDERR_FILENO) != 0);
    sinks_.push_back(monitoring::make_console_sink(bar));
    log::plain(banner(known, places));
    if (config_.device.threads == 0 && process_.device.is_cpu() &&
        process_.threads < process_.cores) {
      log::info(str("OMP_NUM_THREADS is ", dist::library_variable("OMP_NUM_THREADS"),
                    ": rank 0 computes on ", process_.threads, " of its ", process_.cores,
                    " cores"));
    }
    for (const std::string& line : initial_) log::info(line);
  });
}

train::TrainContext TrainingJob::train_context(const config::Config& config,
                                               const train::BatchArithmetic& batches,
                                               const data::Splits& splits,
                                               checkpoint::Store* checkpoints,
                                               const std::atomic<bool>& stop_requested) {
  const bool other_file = snapshot_ && is_other_file(*snapshot_, *data_.store);
  return {.config = config,
          .batches = batches,
          .task = *task_,
          .store = *data_.store,
          .splits = splits,
          .device = process_.device,
          .precision = precision_,
          .loader_threads = loader_threads_,
          .cores = process_.cores,
          .host_cores = static_cast<int>(std::thread::hardware_concurrency()),
          .node = process_.world.node,
          .gradients = *gradients_,
          .host = process_.host,
          .statistics = statistics_.get(),
          .checkpoints = checkpoints,
          .sinks = sinks_,
          .stop_requested = stop_requested,
          .verdict_requested = &install_verdict_signal(),
          .progress = [this](const char* phase, int64_t step) { watchdog_->progress(phase, step); },
          .device_failed = [this](const Error& error) { end_process(error); },
          .check_run_folder = [this] { job::check_run_folder(plan_); },
          .take_gpu_use = take_gpu_use_,
          .memory_advice =
              [this, &batches](double requested) { return memory_advice(batches, requested); },
          .verified_epoch = other_file ? snapshot_->step / batches.steps_per_epoch : 0,
          .headroom_seconds = config.run.diagnose ? kHeadroomSeconds : 0,
          .global_batch_given = global_batch_given_};
}

void TrainingJob::run() {
  if (dry_run_) {  // up to step 1, no further
    data_.splits.val.clear();
    data_.splits.test.clear();
  }
  stop_requested_ = &install_stop_signals();
  std::optional<checkpoint::Store> checkpoints;
  if (is_rank0() && !dry_run_) {
    checkpoints.emplace(plan_.folder / "checkpoints", *files_, config_.checkpoint.keep_last);
    if (snapshot_) checkpoints->tidy();  // it may have nothing to save
  }
  try {
    train(checkpoints ? &*checkpoints : nullptr);
  } catch (...) {
    say_failed();
    end_job_of_several(process_.mpi);
    throw;
  }
  watchdog_->close();
}

void TrainingJob::train(checkpoint::Store* checkpoints) try {
  train::TrainContext context =
      train_context(config_, batches_, data_.splits, checkpoints, *stop_requested_);
  context.compare_readers = true;
  train::Trainer trainer(std::move(context));
  if (snapshot_) dist::agree(process_.host, [&] { trainer.resume(*snapshot_); });
  snapshot_.reset();
  outcome_ = trainer.run();
} catch (const c10::Error& e) {  // of what lives as long as the run: buckets, moments
  const auto failure = device_failure(e, batches_, "before the first step");
  if (failure && failure->lost) end_process(failure->error);
  if (failure) throw failure->error;
  throw;
}

std::optional<train::DeviceFailure> TrainingJob::device_failure(
    const c10::Error& error, const train::BatchArithmetic& batches,
    const std::string& where) const {
  return train::device_failure(
      error, batches,
      {.device = process_.device,
       .memory_bytes = static_cast<double>(device_.memory_bytes),
       .works = device::works(process_.device),
       .advice = [&](double requested) { return memory_advice(batches, requested); }},
      where);
}

std::string TrainingJob::memory_advice(const train::BatchArithmetic& batches,
                                       double requested) const {
  return job::memory_advice(config_, data_, batches, precision_,
                            {.device = process_.device,
                             .capability = device_.capability,
                             .capacity = static_cast<double>(device_.memory_bytes / sharing_.ranks),
                             .requested = requested});
}

void TrainingJob::end_process(const Error& error) {
  log::error(error.what());
  say_failed();
  process_.mpi.abort(error.exit_code());
}

void TrainingJob::say_failed() {
  for (const auto& sink : sinks_) sink->state(monitoring::RunState::kFailed);
}

std::string TrainingJob::last_line() const {
  const train::TrainResult& o = outcome_;
  return str(
      "finished: ", o.reason, " | ", o.own_steps, o.own_steps == 1 ? " step in " : " steps in ",
      human_duration(o.seconds),
      std::isnan(o.best) ? "" : str(" | best ", o.metric, " ", fixed(o.best, 4)),
      std::isnan(o.padding_waste) ? "" : str(" | padding ", fixed(100 * o.padding_waste, 1), " %"),
      o.bad_samples == 0 ? ""
                         : str(" | ", o.bad_samples,
                               o.bad_samples == 1 ? " bad sample" : " bad samples", " left out"),
      " | ledger ", hex(o.ledger), dry_run_ ? "" : " | " + plan_.folder.string());
}

void TrainingJob::linger() const {
  const auto begin = std::chrono::steady_clock::now();
  train::StepAgreement agreement(process_.host);
  const auto is_over = [&] {
    return seconds_since(begin) >= config_.metrics.linger_seconds || *stop_requested_;
  };
  // Together: the target of a rank that leaves before the others would be down.
  while (!agreement.exchange_now({.stop = is_over()}).stop)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  agreement.settle();
}

int TrainingJob::conclude() {
  dist::agree_on_rank0(process_.host, [&] {
    const diagnose::Verdict verdict = diagnose::judge(outcome_.evidence);
    const monitoring::VerdictRecord record = diagnose::record_of(verdict, outcome_.steps);
    for (const auto& sink : sinks_) sink->verdict(record);
    log::plain(diagnose::text_of(verdict));
    for (const std::string& line :
         {diagnose::efficiency_text(outcome_.evidence), text_of(record.communication)}) {
      if (!line.empty()) log::plain(line);
    }
    log::plain(last_line());
  });
  for (const auto& sink : sinks_) sink->state(monitoring::RunState::kFinished);
  // All ranks wait for it: a rank that leaves while the targets file still lists it seems to
  // have crashed.
  // Not of one that was asked to stop: the page has pictures of samples, and who asked may not wait
  // for them.
  dist::agree_on_rank0(process_.host, [&] {
    if (!dry_run_ && outcome_.exit_code == 0)
      write_report(process_.prober, plan_.folder, config_.model.file);
  });
  if (!dry_run_ && config_.metrics.linger_seconds > 0 && outcome_.exit_code == 0) {
    linger();
  }
  if (targets_) targets_->remove();
  log::close_file();
  return outcome_.exit_code;
}

}  // namespace dtrain::job
