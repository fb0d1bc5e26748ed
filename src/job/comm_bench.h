#pragma once

// Measures the communicators that a training run would have, each with the operations that a run
// asks of it: `dtrain bench comm`. Collective; every rank gets the same result.

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "dist/comm_probe.h"
#include "job/process_context.h"

namespace dtrain::job {

struct CommBenchOptions {
  std::vector<int64_t> sizes;  // bytes, ascending
  double seconds = 2;          // time for each operation of each communicator
};

// One operation of one communicator.
struct OperationCost {
  dist::Collective operation{};
  std::vector<dist::ProbedSize> sizes = {};
  int64_t left_out = 0;  // sizes for which there was no time
  dist::CostFit fit = {};
};

struct CommunicatorCost {
  std::string name;                            // "gradients", "statistics", "host"
  std::string implementation;                  // Communicator::name()
  std::string device;                          // "cuda:0", "cpu": where its tensors are
  std::vector<OperationCost> operations = {};  // none on one rank, where nothing travels
};

std::vector<CommunicatorCost> bench_communicators(ProcessContext&, const config::Config&,
                                                  const CommBenchOptions&);

// From `smallest` to `largest`, each `factor` times the one before; the last one is
// `largest`. Pure.
std::vector<int64_t> sizes_between(int64_t smallest, int64_t largest, int64_t factor);

bool has_wrong_values(const std::vector<CommunicatorCost>&);

}  // namespace dtrain::job
