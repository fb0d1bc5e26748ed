#pragma once

// Every cause that a run's measurements show, with its evidence and its gain, in no order. Each
// function looks at one part of a run and knows nothing of the others: the same lost time may have
// two names (a rank that is late because its disk is slow), and verdict.h gives it to one of them.
// Pure functions.

#include <vector>

#include "diagnose/evidence.h"
#include "diagnose/finding.h"

namespace dtrain::diagnose {

std::vector<Finding> data_causes(const RunEvidence&);     // disk, decode, augment, readers
std::vector<Finding> rank_causes(const RunEvidence&);     // late_rank, rotating_rank
std::vector<Finding> network_causes(const RunEvidence&);  // latency, bandwidth, overlap, optimizer
// checkpoint, evaluation, small_batch, padding, loss_scale
std::vector<Finding> step_causes(const RunEvidence&);
std::vector<Finding> core_causes(const RunEvidence&);  // oversubscribed, binding, cpu_limit, steal
std::vector<Finding> gpu_causes(const RunEvidence&);   // power, heat, copy, precision
std::vector<Finding> memory_causes(const RunEvidence&);  // memory_growth, memory_full, page_cache

}  // namespace dtrain::diagnose
