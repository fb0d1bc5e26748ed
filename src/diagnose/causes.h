#pragma once

// Every cause that a run's measurements show, with its evidence and its gain, in no order. Each
// function looks at one part of a run and knows nothing of the others: the same lost time may have
// two names (a rank that is late because its disk is slow), and verdict.h gives it to one of them.
// Pure functions.

#include <string>
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

// What they could not look at, because this machine does not measure it or because it has not
// happened yet: in words, each once, with the reason where it is known. Requires: there is a rank.
std::vector<std::string> not_measured(const RunEvidence&);

}  // namespace dtrain::diagnose
