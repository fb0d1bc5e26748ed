// How a run gets its name and its folder, and what it says before step 1.

#include <unistd.h>

#include <utility>

#include "core/log.h"
#include "dist/agree.h"
#include "dist/launcher.h"
#include "dist/object_collectives.h"
#include "dist/supervisor_lines.h"
#include "job/batch_choice.h"
#include "job/run_display.h"
#include "job/signals.h"
#include "job/training_job.h"
#include "os/process_info.h"
#include "os/vector_set.h"
#include "text/strings.h"
#include "train/bf16_gain.h"
#include "train/metric_watch.h"

namespace dtrain::job {
namespace {

// The phase of the watchdog while rank 0 works and the others wait for it.
const char* phase_of_rank0_work(const PlannedRun& run) {
  return run.is_rank0() ? "start" : "all_reduce";
}

std::vector<RankResources> gather_places(const NamedRun& run, const std::string& metrics_address) {
  const ProcessContext& process = run.process;
  const device::Properties& device = run.device_properties;
  const RankResources mine{process.world.node, device.name,         device.pci_bus_id,
                           metrics_address,    device.memory_bytes, process.world.local_rank,
                           process.cores,      process.threads,     run.loader_threads};
  std::vector<RankResources> places;
  for (const std::string& theirs : dist::all_gather_object(process.host, to_json(mine))) {
    places.push_back(resources_from_json(theirs));
  }
  return places;
}

// The process through which SIGUSR1 reaches all ranks: mpirun, or the `dtrain launch` that started
// it, which would take the end of a job that it did not ask to stop for a preemption.
pid_t process_to_signal() {
  const pid_t launcher = ::getppid();
  const std::optional<ProcessInfo> info = process_info(launcher);
  return info && program_of(info->parent) == program_of(::getpid()) ? info->parent : launcher;
}

// Measured on rank 0 while the other ranks wait.
std::string precision_advice(const PreparedRun& run) {
  if (!train::should_measure_bf16(run.config.train.amp, run.process.device.type(),
                                  has_bfloat16_products()))
    return "";
  return train::advise_bf16(
      train::measure_bf16_gain(run.task->samples().kind, run.config.model.hidden));
}

BannerFacts facts_of(const NamedRun& run) {
  const config::Config& config = run.config;
  const data::Splits& splits = run.data.splits;
  int64_t parameters = 0;
  for (const auto& parameter : run.task->model().parameters()) parameters += parameter.numel();
  const std::string precision = train::to_string(run.precision);
  return {.config = config,
          .precision =
              config.train.amp == config::AmpMode::kAuto ? str(precision, " (auto)") : precision,
          .data_file = run.data.store->origin().path().string(),
          .run_folder = run.dry_run ? "" : run.plan.folder.string(),
          .config_source = run.snapshot ? "that of the checkpoint" : run.loaded.source,
          .communicator = std::string(run.connections->gradients().name()),
          .parameters = parameters,
          .train = static_cast<int64_t>(splits.train.size()),
          .val = static_cast<int64_t>(splits.val.size()),
          .test = static_cast<int64_t>(splits.test.size()),
          .batches = run.batches,
          .metrics = run.task->metrics(),
          .metric = train::watched_metric(*run.task, config.train.metric).name,
          .batch_decided_by = run.batch_decided_by,
          .preset = run.preset,
          .precision_advice = precision_advice(run),
          .rate_advice =
              run.snapshot ? ""
                           : rate_advice(run.loaded, config.optimizer.lr, run.batches.global_batch),
          .resumed = run.snapshot && run.plan.checkpoint
                         ? str("step ", run.snapshot->step, " of ", run.plan.checkpoint->string())
                         : "",
          .launcher_pid = run.process.world.launched ? process_to_signal() : 0};
}

// What rank 0 prints before step 1.
void print_banner(const PreparedRun& run, const BannerFacts& facts,
                  const std::vector<RankResources>& places) {
  const ProcessContext& process = run.process;
  log::plain(banner(facts, places));
  if (!run.dry_run && dist::has_supervisor())
    log::for_program(dist::line_of(dist::HeldRun{run.plan.folder.string()}));
  if (run.config.device.threads == 0 && process.device.is_cpu() &&
      process.threads < process.cores) {
    log::info(str("OMP_NUM_THREADS is ", dist::library_variable("OMP_NUM_THREADS"),
                  ": rank 0 computes on ", process.threads, " of its ", process.cores, " cores"));
  }
  for (const std::string& line : run.initial) log::info(line);
}

}  // namespace

NamedRun ConnectedRun::claim_name() && {
  check_password_file(process.host, config.metrics);  // an error must not leave an empty folder
  if (dry_run) return {std::move(*this)};
  // A stop from here on saves after step 1: a run folder without a checkpoint would only be in
  // the way.
  install_stop_signals();
  connections->watchdog().progress(phase_of_rank0_work(*this), 0);
  dist::agree_on_rank0(process.host, [&] {
    if (plan.generated) claim_generated_name(plan, connections->files());
  });
  share_name(process.host, loaded.config.run.folder, plan);
  config.run.name = plan.name;
  return {std::move(*this)};
}

AnnouncedRun NamedRun::announce() && {
  dist::Watchdog& watchdog = connections->watchdog();
  auto display = std::make_unique<RunDisplay>(*this);
  watchdog.progress("all_reduce", 0);
  const std::vector<RankResources> places = gather_places(*this, display->metrics_address());
  display->show_places(places);
  watchdog.progress(phase_of_rank0_work(*this), 0);
  dist::agree_on_rank0(process.host, [&] {
    const BannerFacts facts = facts_of(*this);
    if (!dry_run) {
      create_run(plan, config, environment_json(facts, places), connections->files());
      display->open_records(*this, places);
    }
    display->open_console(config.run.progress, process.world.launched);
    print_banner(*this, facts, places);
  });
  return {std::move(*this), std::move(display)};
}

}  // namespace dtrain::job
