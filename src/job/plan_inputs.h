#pragma once

// Measures what `dtrain plan` calculates from, with the run's own parts: its steps at the sizes
// that the plan needs, its buckets, and the link between its ranks.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "job/step_probe.h"
#include "plan/links.h"
#include "plan/measured_run.h"

namespace dtrain::job {

// What a probe says of micro-steps of its size: means over ranks and steps. `threads`: loader
// threads of a rank. Pure.
plan::MeasuredBatch measured_batch(const StepProbe&, int threads);

// Bytes of each sum over ranks that the batch norm of the run asks for in a micro-step, in forward
// and in backward. Empty without train.sync_batch_norm.
std::vector<double> statistics_bytes(const PreparedRun&);

// At most `most` of `sizes`, evenly chosen; the smallest and the largest are kept. Pure.
std::vector<int64_t> thinned(std::span<const int64_t> sizes, size_t most);

// Measures micro-steps of these sizes, but those for which this machine has too little memory,
// which the result names; DeviceError if that is all. Collective, with the same result on
// all ranks.
plan::MeasuredRun measure_run(const ConnectedRun&, std::span<const int64_t> sizes,
                              const StepProbeOptions&);

// Between the ranks of this job, from its all-reduce; nullopt on one rank. As measure_run().
std::optional<plan::Link> measure_link(const ConnectedRun&);

}  // namespace dtrain::job
