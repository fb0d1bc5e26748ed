#pragma once

// What shows a run while it trains: its HTTP endpoint and live page, the sensors of its GPU, the
// files by which Prometheus finds it, and the sinks that receive its numbers. Every rank has one.
//
// Thread-safety: the training thread. Ownership: owns all of it; borrows nothing.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/log.h"
#include "dist/communicator.h"
#include "dist/failure.h"
#include "job/banner.h"
#include "monitoring/gpu_metrics.h"
#include "monitoring/live_page.h"
#include "monitoring/signpost_page.h"
#include "monitoring/sink.h"
#include "monitoring/targets_file.h"

namespace dtrain::job {

struct NamedRun;

class RunDisplay {
 public:
  // Opens the endpoint, or the sensors alone where nothing is served. ConfigError on all ranks if
  // any of them refuses its metrics.auth_file. Collective.
  explicit RunDisplay(const NamedRun&);

  // "127.0.0.1:9500"; "" where nothing is served.
  const std::string& metrics_address() const { return metrics_address_; }
  // Completes the page with the places of all ranks.
  void show_places(const std::vector<RankResources>&);
  // Rank 0, when the run has its folder: metrics.jsonl, TensorBoard, the files for Prometheus, and
  // on the page of a resumed run its earlier curves.
  void open_records(const NamedRun&, const std::vector<RankResources>&);
  // Rank 0: step lines or a progress bar. `launched`: mpirun hides the terminal.
  void open_console(config::ProgressMode, bool launched);

  monitoring::Sinks& sinks() { return sinks_; }
  // What the sensors of the GPU said since the last call; empty where there are none.
  const std::function<measure::Values()>& take_gpu_use() const { return take_gpu_use_; }
  void end(const monitoring::RunEnd&);  // how the process leaves the run
  void failed(const dist::Failure&);
  // At a clean end: a listed target that does not answer means a crash.
  void remove_targets();

 private:
  void open_endpoint(const NamedRun&);
  void read_gpu_for_verdict(const NamedRun&);
  std::vector<monitoring::Page> make_pages(const NamedRun&);
  void write_targets(const NamedRun&, const std::vector<RankResources>&);

  monitoring::Sinks sinks_;
  std::string metrics_address_;
  std::unique_ptr<monitoring::GpuPoller> gpu_poller_;  // where no sink reads the GPU
  std::function<measure::Values()> take_gpu_use_;      // reads the poller or a sink
  monitoring::LivePage* live_page_ = nullptr;          // a sink; rank 0, with metrics.enabled
  std::optional<log::LogTap> page_log_;                // copies log lines to the live page
  std::optional<monitoring::SignpostPage> signpost_;   // the other ranks
  std::unique_ptr<monitoring::TargetsFile> targets_;   // rank 0
};

// Gives the page of a resumed run the curves that its earlier processes recorded in metrics.jsonl.
// To be called when the records after the step that is resumed have been removed, and before the
// page's first record. Damaged records are left out, and what cannot be read at all leaves the
// curves empty: a page is never an error. Not collective. (page_history.cpp)
void show_earlier(monitoring::LivePage&, const std::filesystem::path& run);

// ConfigError on all ranks if any of them refuses its metrics.auth_file. Collective.
void check_password_file(dist::Communicator& host, const config::Metrics&);

}  // namespace dtrain::job
