#include "job/run_display.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "config/print.h"
#include "dist/agree.h"
#include "dist/rank_names.h"
#include "job/training_job.h"
#include "job/version.h"
#include "monitoring/basic_auth.h"
#include "monitoring/console_sink.h"
#include "monitoring/jsonl_sink.h"
#include "monitoring/prometheus_config.h"
#include "monitoring/prometheus_sink.h"
#include "monitoring/tensorboard_sink.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]:");
}

std::string data_name(const config::Config& config) {
  return std::filesystem::path(config.data.file).filename().string();
}

monitoring::Identity identity_of(const NamedRun& run) {
  const dist::World& world = run.process.world;
  return {.job_id = run.plan.name,
          .rank = world.rank,
          .local_rank = world.local_rank,
          .node = world.node,
          .build = build_labels(),
          .job = {{"task", str(run.config.task)},
                  {"model", str(run.config.model.name)},
                  {"dataset", data_name(run.config)},
                  {"config_hash", config::hash(run.config)},
                  {"world_size", str(world.size)}},
          .gpu_pci_bus_id = run.device_properties.pci_bus_id,
          .run_folder = run.plan.folder.string()};
}

}  // namespace

RunDisplay::RunDisplay(const NamedRun& run) {
  if (run.dry_run) return;
  if (run.config.metrics.enabled) {
    open_endpoint(run);
  } else {
    read_gpu_for_verdict(run);
  }
}

void RunDisplay::open_endpoint(const NamedRun& run) {
  std::unique_ptr<monitoring::PrometheusSink> prometheus;
  const std::vector<monitoring::Page> pages = make_pages(run);
  dist::agree(run.process.host, [&] {  // a rank may refuse its metrics.auth_file
    prometheus = monitoring::make_prometheus_sink(run.config.metrics, identity_of(run), pages);
    run.connections->watchdog().progress("all_reduce", 0);
  });
  metrics_address_ = prometheus->address();
  if (run.snapshot) {
    prometheus->restore(run.snapshot->step, run.snapshot->step * run.batches.global_batch);
  }
  if (run.process.device.is_cuda()) {
    take_gpu_use_ = [sink = prometheus.get()] { return sink->take_gpu_use(); };
  }
  sinks_.push_back(std::move(prometheus));
}

// The verdict needs the sensors of the GPU also where nothing is served.
void RunDisplay::read_gpu_for_verdict(const NamedRun& run) {
  if (!run.process.device.is_cuda()) return;
  monitoring::OpenedReader opened = monitoring::open_nvml(run.device_properties.pci_bus_id);
  if (!opened.reader) {
    log::info(str("the verdict has no readings of the GPU: ", opened.problem));
    return;
  }
  gpu_poller_ = std::make_unique<monitoring::GpuPoller>(std::move(opened.reader), nullptr,
                                                        run.config.metrics.gpu_interval);
  take_gpu_use_ = [poller = gpu_poller_.get()] { return poller->take(); };
}

// Rank 0 serves the page of the run; the others say where it is.
std::vector<monitoring::Page> RunDisplay::make_pages(const NamedRun& run) {
  if (run.process.world.rank != 0) {
    signpost_.emplace(run.plan.name, run.process.world.rank);
    return {signpost_->page()};
  }
  auto page = std::make_unique<monitoring::LivePage>(
      run.plan.name, monitoring::LivePage::Facts{{"task", str(run.config.task)},
                                                 {"network", str(run.config.model.name)},
                                                 {"data", data_name(run.config)},
                                                 {"precision", train::to_string(run.precision)},
                                                 {"batch", describe(run.batches)}});
  live_page_ = page.get();
  page_log_.emplace([page = live_page_](std::string_view line) { page->log_line(line); });
  sinks_.push_back(std::move(page));
  return live_page_->pages();
}

void RunDisplay::show_places(const std::vector<RankResources>& places) {
  if (signpost_) signpost_->point_to(places.front().metrics);
  if (live_page_ == nullptr) return;
  std::vector<monitoring::LivePage::Place> facts;
  for (const RankResources& p : places)
    facts.push_back({p.node, p.device, p.cores, p.loader_threads});
  live_page_->places(std::move(facts));
}

void RunDisplay::open_records(const NamedRun& run, const std::vector<RankResources>& places) {
  write_targets(run, places);
  const std::filesystem::path& folder = run.plan.folder;
  sinks_.push_back(monitoring::make_jsonl_sink(folder / "metrics.jsonl", run.done_steps()));
  sinks_.push_back(monitoring::make_tensorboard_sink(folder));
  if (run.snapshot && live_page_ != nullptr) show_earlier(*live_page_, folder);
}

void RunDisplay::write_targets(const NamedRun& run, const std::vector<RankResources>& places) {
  std::vector<monitoring::TargetsFile::Target> addresses;
  std::vector<int> unreachable;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].metrics.empty()) continue;
    if (is_loopback(places[rank].metrics) && places[rank].node != places[0].node) {
      unreachable.push_back(static_cast<int>(rank));
      continue;
    }
    addresses.push_back({places[rank].metrics, places[rank].node, static_cast<int>(rank)});
  }
  if (!unreachable.empty()) {
    log::info(str("the metrics of ", dist::rank_numbers(unreachable), " are served on ",
                  run.config.metrics.bind, " of other hosts, where Prometheus on ", places[0].node,
                  " does not find them: --metrics.bind 0.0.0.0 serves them to the network"));
  }
  if (addresses.empty()) return;
  try {  // the folder may be another user's, and the run needs neither file
    targets_ =
        std::make_unique<monitoring::TargetsFile>(run.config.run.folder, run.plan.name, addresses);
    run.connections->watchdog().alive();
    monitoring::write_prometheus_config(run.connections->files(), targets_->path().parent_path());
  } catch (const std::exception& problem) {
    log::warning(str("Prometheus may not find the metrics of this run: ", problem.what()));
  }
}

void RunDisplay::open_console(config::ProgressMode progress, bool launched) {
  const bool bar =
      progress == config::ProgressMode::kBar ||
      (progress == config::ProgressMode::kAuto && !launched && ::isatty(STDERR_FILENO) != 0);
  sinks_.push_back(monitoring::make_console_sink(bar));
}

void RunDisplay::end(const monitoring::RunEnd& end) {
  for (const auto& sink : sinks_) sink->end(end);
}

void RunDisplay::failed(const dist::Failure& failure) {
  end({.state = monitoring::LiveState::kFailed,
       .exit_code = failure.exit_code,
       .reason = failure.message,
       .failure = dist::json_of(dist::record_of(failure))});
}

void RunDisplay::remove_targets() {
  if (targets_) targets_->remove();
}

void check_password_file(dist::Communicator& host, const config::Metrics& metrics) {
  dist::agree(host, [&] {
    if (metrics.enabled && !metrics.auth_file.empty()) monitoring::BasicAuth{metrics.auth_file};
  });
}

}  // namespace dtrain::job
