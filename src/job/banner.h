#pragma once

// What rank 0 prints before step 1 and writes to environment.json: versions, devices, precision,
// data, batch arithmetic, addresses and folders.

#include <string>
#include <vector>

#include "config/config.h"
#include "tasks/metrics.h"
#include "train/batch_arithmetic.h"

namespace dtrain::job {

struct RankResources {  // gathered from every rank
  std::string node, device, pci_bus_id;
  std::string metrics;  // "127.0.0.1:9500", where its metrics are served; "": nowhere
  int64_t memory_bytes = 0;
  int local_rank = 0, cores = 0, threads = 0, loader_threads = 0;
};
std::string to_json(const RankResources&);
RankResources resources_from_json(const std::string&);

struct BannerFacts {
  config::Config config;  // resolved
  std::string precision, data_file, run_folder, config_source, communicator;
  int64_t parameters = 0;
  int64_t train = 0, val = 0, test = 0;
  train::BatchArithmetic batches;
  std::vector<tasks::MetricSpec> metrics;  // all that the task has
  std::string metric;                      // the watched one
  std::string batch_decided_by;            // which key, and where it was set
  std::string preset;                      // what device.preset did; "": there is none
  std::string precision_advice;            // what train::advise_bf16() says
  std::string rate_advice;                 // "": the learning rate is for this global batch
  std::string resumed;   // "step 120 of runs/x/checkpoints/step_00000120", "" for a fresh start
  int launcher_pid = 0;  // 0: not under mpirun
};

std::string banner(const BannerFacts&, const std::vector<RankResources>&);
std::string environment_json(const BannerFacts&, const std::vector<RankResources>&);

}  // namespace dtrain::job
