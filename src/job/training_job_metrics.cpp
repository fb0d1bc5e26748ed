// What shows a run while it trains: its endpoint and page, the sensors of its GPU, and the files by
// which Prometheus finds it.

#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "config/print.h"
#include "core/log.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "dist/rank_names.h"
#include "job/banner.h"
#include "job/training_job.h"
#include "job/version.h"
#include "monitoring/basic_auth.h"
#include "monitoring/prometheus_config.h"
#include "monitoring/prometheus_sink.h"

namespace dtrain::job {
namespace {

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]:");
}

}  // namespace

// Rank 0 serves the page of the run; the others say where it is.
std::vector<monitoring::Page> TrainingJob::make_page() {
  if (!is_rank0()) {
    signpost_.emplace(plan_.name, process_.world.rank);
    return {signpost_->page()};
  }
  auto page = std::make_unique<monitoring::LivePage>(
      plan_.name, monitoring::LivePage::Facts{
                      {"task", str(config_.task)},
                      {"network", str(config_.model.name)},
                      {"data", std::filesystem::path(config_.data.file).filename().string()},
                      {"precision", train::to_string(precision_)},
                      {"batch", describe(batches_)}});
  live_page_ = page.get();
  page_log_.emplace([this](std::string_view line) { live_page_->log_line(line); });
  sinks_.push_back(std::move(page));
  return live_page_->pages();
}

void TrainingJob::complete_page(const std::vector<RankPlace>& places) {
  if (signpost_) signpost_->point_to(places.front().metrics_address);
  if (live_page_ == nullptr) return;
  std::vector<monitoring::LivePage::Place> facts;
  for (const RankPlace& p : places) facts.push_back({p.node, p.device, p.cores, p.loader_threads});
  live_page_->places(std::move(facts));
}

// The verdict needs the sensors of the GPU also where nothing is served.
void TrainingJob::read_gpu_for_verdict() {
  if (dry_run_ || !process_.device.is_cuda()) return;
  monitoring::OpenedReader opened = monitoring::open_nvml(device_.pci_bus_id);
  if (!opened.reader) {
    log::info(str("the verdict has no readings of the GPU: ", opened.problem));
    return;
  }
  gpu_poller_ = std::make_unique<monitoring::GpuPoller>(std::move(opened.reader), nullptr,
                                                        config_.metrics.gpu_interval);
  take_gpu_use_ = [this] { return gpu_poller_->take(); };
}

void TrainingJob::check_password_file() {
  dist::agree(process_.host, [&] {
    const config::Metrics& metrics = config_.metrics;
    if (metrics.enabled && !metrics.auth_file.empty()) monitoring::BasicAuth{metrics.auth_file};
  });
}

void TrainingJob::open_metrics() {
  if (!config_.metrics.enabled) return read_gpu_for_verdict();
  if (dry_run_) return;
  const dist::World& world = process_.world;
  std::unique_ptr<monitoring::PrometheusSink> prometheus;
  const std::vector<monitoring::Page> page = make_page();
  dist::agree(process_.host, [&] {  // a rank may refuse its metrics.auth_file
    prometheus = monitoring::make_prometheus_sink(
        config_.metrics,
        {.job_id = plan_.name,
         .rank = world.rank,
         .local_rank = world.local_rank,
         .node = world.node,
         .build = build_labels(),
         .job = {{"task", str(config_.task)},
                 {"model", str(config_.model.name)},
                 {"dataset", std::filesystem::path(config_.data.file).filename().string()},
                 {"config_hash", config::hash(config_)},
                 {"world_size", str(world.size)}},
         .gpu_pci_bus_id = device_.pci_bus_id,
         .run_folder = plan_.folder.string()},
        page);
    watchdog_->progress("all_reduce", 0);
  });
  metrics_address_ = prometheus->address();
  if (snapshot_) prometheus->restore(snapshot_->step, snapshot_->step * batches_.global_batch);
  if (process_.device.is_cuda()) {
    take_gpu_use_ = [sink = prometheus.get()] { return sink->take_gpu_use(); };
  }
  sinks_.push_back(std::move(prometheus));
}

void TrainingJob::write_targets(const std::vector<RankPlace>& places) {
  std::vector<monitoring::TargetsFile::Target> addresses;
  std::vector<int> unreachable;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].metrics_address.empty()) continue;
    if (is_loopback(places[rank].metrics_address) && places[rank].node != places[0].node) {
      unreachable.push_back(static_cast<int>(rank));
      continue;
    }
    addresses.push_back({places[rank].metrics_address, places[rank].node, static_cast<int>(rank)});
  }
  if (!unreachable.empty()) {
    log::info(str("the metrics of ", dist::rank_numbers(unreachable), " are served on ",
                  config_.metrics.bind, " of other hosts, where Prometheus on ", places[0].node,
                  " does not find them: --metrics.bind 0.0.0.0 serves them to the network"));
  }
  if (addresses.empty()) return;
  try {  // the folder may be another user's, and the run needs neither file
    targets_ = std::make_unique<monitoring::TargetsFile>(config_.run.folder, plan_.name, addresses);
    watchdog_->alive();
    monitoring::write_prometheus_config(*files_, targets_->path().parent_path());
  } catch (const std::exception& problem) {
    log::warning(str("Prometheus may not find the metrics of this run: ", problem.what()));
  }
}

}  // namespace dtrain::job
