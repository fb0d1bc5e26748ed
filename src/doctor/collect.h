#pragma once

// Each rank's part of `dtrain doctor`: what it knows of itself, for the checks. Writes nothing.

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.h"
#include "doctor/rank_facts.h"
#include "job/process_context.h"

namespace dtrain::doctor {

// The facts of all ranks, by rank, on every rank. What is wrong with the data, the network or a
// device is a fact, not an error. Collective; takes about a second.
// `free_shared_memory`: as it was before MPI started, which takes a part of it.
std::vector<RankFacts> collect(job::ProcessContext&, const config::Config&,
                               std::optional<int64_t> free_shared_memory);

// What CUDA and NVML say of a GPU, with copies between it and the others of the process, which
// take a part of a second for each of them. (gpu_probe.cpp)
GpuFacts examine_gpu(int index);

}  // namespace dtrain::doctor
