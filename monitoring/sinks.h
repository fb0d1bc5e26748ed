#pragma once

// The concrete sinks, made by src/cli/. Files are appended on resume (records after the resumed step are dropped
// first).

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "monitoring/sink.h"

namespace dtrain::monitoring {

class GpuReader;  // monitoring/gpu_reader.h

// The step line and the validation line, or a progress bar that is drawn over itself. For rank 0 only.
std::unique_ptr<Sink> make_console_sink(bool bar);
// The lines as text. `step` counts optimizer steps of the whole run, as in checkpoint names and metrics.jsonl.
std::string step_line(const StepStats&);
std::string eval_line(const EvalStats&, int64_t epochs = 0);  // epochs of the run; 0: not shown
std::string progress_bar(const StepStats&, int columns);      // never wider than `columns`

// One JSON object per line: logging steps, evaluations, checkpoints and changes of state (docs/metrics.md). JSON has no
// NaN: such a number is null; an infinite one is null beside a key NAME_text that says "inf" or "-inf".
std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& file, int64_t resumed_step);

// A new events.out.tfevents.* file; TensorBoard itself then drops what older files hold from its first step on.
std::unique_ptr<Sink> make_tensorboard_sink(const std::filesystem::path& run_folder);

// Labels on every series of this process, and of the info metrics.
struct Identity {
  std::string job_id;  // the run's name
  int rank = 0, local_rank = 0;
  std::string node;
  std::map<std::string, std::string> build;  // dtrain_build_info labels: version, git_commit, torch, cuda, nccl, mpi
  std::map<std::string, std::string> job;    // dtrain_job_info labels: task, model, dataset, config_hash, world_size
  std::string gpu_pci_bus_id;                // "" on the CPU
};

class PrometheusSink : public Sink {
 public:
  // For a scraper: "127.0.0.1:9500"; bound to all interfaces: "NODE:9500"; "" if no port could be bound.
  virtual std::string address() const = 0;
  // On resume, before the first step: the counters go on where the checkpoint stopped.
  virtual void restore(int64_t steps, int64_t samples) = 0;
};
// Binds metrics.bind:(metrics.port + local_rank); taken: a free port, with a warning that names address and rank. Reads
// the GPU of gpu_pci_bus_id, if there is one, every metrics.gpu_interval seconds in a thread of its own. Never throws
// for a port. What is global (loss, samples, learning rate, ...) is exported by rank 0 alone, so that a sum over ranks
// counts it once. Thread-safety: calls from one thread; scrapes may come at any time. Destroying it closes the
// endpoint.
std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics&, const Identity&);
std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics&, const Identity&,
                                                     std::unique_ptr<GpuReader>);

// RUNS/targets/NAME.json for Prometheus' file_sd (rank 0): written atomically, removed by remove().
class TargetsFile {
 public:
  struct Target {
    std::string address, node;  // a target without address is left out
    int rank = 0;
  };
  // Throws OutputError when it cannot be written.
  TargetsFile(const std::filesystem::path& runs_folder, const std::string& job_id, const std::vector<Target>&);
  void remove() noexcept;  // on a clean end only, so that `up == 0` means a crash
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dtrain::monitoring
