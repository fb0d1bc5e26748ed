#pragma once

// The numbers of one rank as Prometheus series, on an HTTP endpoint of that rank. What is the same
// on all ranks (loss, samples, learning rate) is exported by rank 0 alone, so that a sum over ranks
// counts it once.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "monitoring/gpu_reader.h"
#include "monitoring/http_pages.h"
#include "monitoring/sink.h"

namespace dtrain::monitoring {

// Who the process is: labels of all its series and of the info metrics.
struct Identity {
  std::string job_id;  // the name of the run
  int rank = 0, local_rank = 0;
  std::string node;  // host name
  std::map<std::string, std::string>
      build;  // dtrain_build_info: version, git_commit, torch, cuda, nccl, mpi
  std::map<std::string, std::string>
      job;  // dtrain_job_info: task, model, dataset, config_hash, world_size
  std::string gpu_pci_bus_id = "";  // "" on the CPU
  std::string run_folder = "";      // rank 0 exports how full its disk is; "": it does not
};

// Thread-safety: all calls come from one thread; scrapes may come at any time. The destructor
// closes the endpoint.
class PrometheusSink : public Sink {
 public:
  // For a scraper: "127.0.0.1:9500", or "NODE:9500" if the endpoint is bound to all interfaces; ""
  // if there is none.
  virtual std::string address() const = 0;
  // After a resume and before the first step: the counters continue from where the checkpoint
  // was saved.
  virtual void restore(int64_t steps, int64_t samples) = 0;
  // What the sensors of the GPU said since the last call; nothing without a GPU.
  virtual measure::Values take_gpu_use() = 0;
};

// Listens on metrics.bind at metrics.port + local_rank, or on a free port if that one is in use
// (endpoint.h). Reads the GPU of gpu_pci_bus_id with NVML every metrics.gpu_interval seconds.
// Throws ConfigError if metrics.auth_file is refused, and for nothing else that the machine lacks:
// without a port or NVML a warning says so. `more`: pages that the endpoint serves beside /metrics.
std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics&, const Identity&,
                                                     std::vector<Page> more = {});
// The same with another reader of the GPU; null: no GPU.
std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics&, const Identity&,
                                                     std::unique_ptr<GpuReader>,
                                                     std::vector<Page> more = {});

}  // namespace dtrain::monitoring
