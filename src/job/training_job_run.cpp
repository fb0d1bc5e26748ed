// What a run trains with, and how it trains and ends.

#include <chrono>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "diagnose/verdict.h"
#include "dist/agree.h"
#include "dist/failure.h"
#include "dist/link_probe.h"
#include "job/memory_advice.h"
#include "job/resume.h"
#include "job/run_display.h"
#include "job/run_report.h"
#include "job/signals.h"
#include "job/training_job.h"
#include "text/number_text.h"
#include "text/strings.h"
#include "train/device_failure.h"
#include "train/step_agreement.h"
#include "train/trainer.h"

namespace dtrain::job {
namespace {

constexpr double kHeadroomSeconds = 3;

train::TrainResult run_trainer(AnnouncedRun& run, checkpoint::CheckpointStore* checkpoints,
                               const std::atomic<bool>& stop_requested) try {
  RunDisplay& display = *run.display;
  train::TrainContext context =
      run.context(run.config, run.batches, run.data.splits, display.sinks(), stop_requested);
  context.checkpoints = checkpoints;
  context.device_failed = [&](const Error& error) {
    const dist::Failure failure = dist::describe(error);
    dist::report(failure);
    display.failed(failure);
    run.process.mpi.abort(failure.exit_code);
  };
  context.check_run_folder = [&] { check_run_folder(run.plan); };
  context.take_gpu_use = display.take_gpu_use();
  context.compare_readers = true;
  try {
    train::Trainer trainer(context);
    if (run.snapshot) dist::agree(run.process.host, [&] { trainer.resume(*run.snapshot); });
    run.snapshot.reset();
    return trainer.run();
  } catch (const c10::Error& error) {
    // Thrown while making what lives as long as the run: buckets, moments
    train::throw_device_failure(error, context, "before the first step");
    throw;
  }
} catch (...) {
  run.display->failed(dist::describe(std::current_exception()));
  end_job_of_several(run.process.mpi);
  throw;
}

std::string last_line(const FinishedRun& run) {
  const train::TrainResult& o = run.outcome;
  return str(
      "finished: ", o.reason, " | ", o.own_steps, o.own_steps == 1 ? " step in " : " steps in ",
      human_duration(o.seconds),
      std::isnan(o.best) ? "" : str(" | best ", o.metric, " ", fixed(o.best, 4)),
      std::isnan(o.padding_waste) ? "" : str(" | padding ", fixed(100 * o.padding_waste, 1), " %"),
      o.bad_samples == 0 ? ""
                         : str(" | ", o.bad_samples,
                               o.bad_samples == 1 ? " bad sample" : " bad samples", " left out"),
      " | ledger ", hex(o.ledger), run.dry_run ? "" : " | " + run.plan.folder.string());
}

void judge(FinishedRun& run) {
  const diagnose::RunEvidence& evidence = run.outcome.evidence;
  const diagnose::Verdict verdict = diagnose::judge(evidence);
  const monitoring::VerdictRecord record = diagnose::record_of(verdict, run.outcome.steps);
  for (const auto& sink : run.display->sinks()) sink->verdict(record);
  log::plain(diagnose::text_of(verdict));
  for (const std::string& line :
       {diagnose::efficiency_text(evidence), text_of(record.communication)}) {
    if (!line.empty()) log::plain(line);
  }
  log::plain(last_line(run));
}

// Without a report the run is as complete as with it.
void write_report(const FinishedRun& run) {
  const std::filesystem::path& folder = run.plan.folder;
  try {
    write_own_report(run.process.prober, folder, run.config.model.file);
  } catch (...) {
    log::warning(str("the report of ", folder.string(),
                     " could not be written: ", dist::describe(std::current_exception()).message,
                     ". `dtrain report` writes it later"));
  }
}

// For `seconds`, or until a rank is asked to stop. Together: the target of a rank that leaves
// before the others would be down.
void linger(dist::Communicator& host, double seconds, const std::atomic<bool>& stop_requested) {
  const auto begin = std::chrono::steady_clock::now();
  train::StepAgreement agreement(host);
  const auto is_over = [&] { return seconds_since(begin) >= seconds || stop_requested; };
  while (!agreement.exchange_now({.stop = is_over()}).stop)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  agreement.settle();
}

}  // namespace

ConnectedRun PlacedRun::connect() && {
  auto connections = std::make_unique<Connections>(process, config);
  const Sharing sharing = sharing_of_own_device(process);
  const size_t samples = data.splits.train.size();
  if (is_rank0() && static_cast<size_t>(process.world.size) > samples) {
    log::warning(str("more ranks (", process.world.size, ") than training samples (", samples,
                     "): some ranks only wait"));
  }
  const std::string slow =
      dist::describe_slow_links(dist::probe_links(process.world), process.world.nodes);
  if (!slow.empty()) log::warning(slow);
  connections->watchdog().progress("start", 0);
  return {std::move(*this), std::move(connections), sharing};
}

train::TrainContext ConnectedRun::context(const config::Config& config,
                                          const train::BatchArithmetic& batches,
                                          const data::Splits& splits, monitoring::Sinks& sinks,
                                          const std::atomic<bool>& stop_requested) const {
  const bool other_file = snapshot && is_other_file(*snapshot, *data.store);
  const auto end_process = [this](const Error& error) {
    dist::report(dist::describe(error));
    process.mpi.abort(error.exit_code());
  };
  const auto advise = [this, &batches](double requested) {
    return memory_advice(
        this->config, data, batches, precision,
        {.device = process.device,
         .capability = device_properties.capability,
         .capacity = static_cast<double>(device_properties.memory_bytes / sharing.ranks),
         .requested = requested});
  };
  return {.config = config,
          .batches = batches,
          .task = *task,
          .store = *data.store,
          .splits = splits,
          .device = process.device,
          .device_facts = device_properties,
          .precision = precision,
          .loader_threads = loader_threads,
          .cores = process.cores,
          .host_cores = static_cast<int>(std::thread::hardware_concurrency()),
          .node = process.world.node,
          .gradients = connections->gradients(),
          .host = process.host,
          .statistics = connections->statistics(),
          .checkpoints = nullptr,
          .sinks = sinks,
          .stop_requested = stop_requested,
          .verdict_requested = &install_verdict_signal(),
          .progress = [watchdog = &connections->watchdog()](
                          const char* phase, int64_t step) { watchdog->progress(phase, step); },
          .device_failed = end_process,
          .memory_advice = advise,
          .verified_epoch = other_file ? snapshot->step / batches.steps_per_epoch : 0,
          .branches = plan.branches,
          .headroom_seconds = config.run.diagnose ? kHeadroomSeconds : 0,
          .global_batch_given = global_batch_given};
}

FinishedRun AnnouncedRun::train() && {
  if (dry_run) {  // up to step 1, no further
    data.splits.val.clear();
    data.splits.test.clear();
  }
  const std::atomic<bool>& stop_requested = install_stop_signals();
  std::optional<checkpoint::CheckpointStore> checkpoints;
  if (is_rank0() && !dry_run) {
    checkpoints.emplace(plan.folder / "checkpoints", connections->files(),
                        config.checkpoint.keep_last);
    if (snapshot) checkpoints->tidy();  // it may have nothing to save
  }
  train::TrainResult outcome =
      run_trainer(*this, checkpoints ? &*checkpoints : nullptr, stop_requested);
  end_watch();
  return {std::move(*this), std::move(outcome), stop_requested};
}

int FinishedRun::conclude() && {
  dist::agree_on_rank0(process.host, [&] { judge(*this); });
  display->end({.exit_code = outcome.exit_code, .reason = outcome.reason, .failure = ""});
  // All ranks wait for it: a rank that leaves while the targets file still lists it seems to
  // have crashed. Not of a run that was asked to stop: the page has pictures of samples, and who
  // asked may not wait for them.
  dist::agree_on_rank0(process.host, [&] {
    if (!dry_run && outcome.exit_code == 0) write_report(*this);
  });
  const double seconds = config.metrics.linger_seconds;
  if (!dry_run && seconds > 0 && outcome.exit_code == 0) {
    linger(process.host, seconds, stop_requested);
  }
  display->remove_targets();
  log::close_file();
  return outcome.exit_code;
}

}  // namespace dtrain::job
