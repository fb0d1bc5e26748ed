#pragma once

// Each rank's part of `dtrain doctor`: what it knows of itself, for the checks. Writes nothing.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "config/load.h"
#include "doctor/gpu_probe.h"
#include "doctor/rank_facts.h"
#include "job/process_context.h"

namespace dtrain::doctor {

// What is only known before MPI starts, which takes a part of it.
struct EarlyFacts {
  std::optional<int64_t> free_shared_memory;
};
EarlyFacts early_facts();

// The facts of all ranks, by rank, on every rank. What is wrong with the data, the network or a
// device is a fact, not an error. Collective; takes about a second.
std::vector<RankFacts> collect(job::ProcessContext&, const config::Config&, const EarlyFacts&,
                               GpuProbe&);

}  // namespace dtrain::doctor
