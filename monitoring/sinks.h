#pragma once

// The concrete sinks, made by src/cli/. Files are appended on resume (records after the resumed step are dropped first).

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "monitoring/sink.h"

namespace dtrain::monitoring {

// The step line and the validation line of rank 0 (docs: product line format), or a progress bar.
std::unique_ptr<Sink> make_console_sink(bool bar);
// The step line alone, as text: pure, tested.
std::string step_line(const StepStats&);
std::string eval_line(const EvalStats&);

std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& file, int64_t resumed_step);
std::unique_ptr<Sink> make_tensorboard_sink(const std::filesystem::path& run_folder);

// Labels on every series of this process, and of the info metrics.
struct Identity {
  std::string job_id;                          // the run's name
  int rank = 0, local_rank = 0;
  std::string node;
  std::map<std::string, std::string> build;    // dtrain_build_info labels: version, git_commit, torch, cuda, nccl, mpi
  std::map<std::string, std::string> job;      // dtrain_job_info labels: task, model, dataset, config_hash, world_size
  std::string gpu_pci_bus_id;                  // "" on the CPU
};

class PrometheusSink : public Sink {
 public:
  virtual std::string address() const = 0;     // "127.0.0.1:9500", "" if no port could be bound
};
// Binds metrics.bind:(metrics.port + local_rank); taken: a free port, with a warning that names address and rank. Starts the
// NVML poller when there is a GPU. Never throws for a port.
std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics&, const Identity&);

// runs/targets/NAME.json for Prometheus file_sd (rank 0, atomically); removed by the returned handle's remove().
class TargetsFile {
 public:
  struct Target {
    std::string address, node;
    int rank = 0;
  };
  TargetsFile(const std::filesystem::path& runs_folder, const std::string& job_id, const std::vector<Target>&);
  void remove() noexcept;                      // on a clean end only, so that `up == 0` means a crash
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dtrain::monitoring
