#pragma once

// Every cause that a run's measurements show, with its evidence and its gain, in no order. Each function looks at one
// part of a run and knows nothing of the others: the same lost time may have two names (a rank that is late because its
// disk is slow), and verdict.h takes the one that gains more. Pure functions.

#include <vector>

#include "diagnose/evidence.h"
#include "diagnose/finding.h"

namespace dtrain::diagnose {

std::vector<Finding> data_causes(const RunEvidence&);     // disk, decode, augment, readers
std::vector<Finding> rank_causes(const RunEvidence&);     // late_rank, rotating_rank
std::vector<Finding> network_causes(const RunEvidence&);  // latency, bandwidth
std::vector<Finding> step_causes(const RunEvidence&);  // copy, optimizer, checkpoint, evaluation, small_batch, padding
std::vector<Finding> machine_causes(const RunEvidence&);  // oversubscribed, cpu_limit, steal, memory_growth

}  // namespace dtrain::diagnose
