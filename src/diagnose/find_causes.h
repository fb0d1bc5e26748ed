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

using Findings = std::vector<Finding>;

// These add what they find, each in a file of its name. Requires: the ranks have steps.
void add_data_causes(const RunEvidence&, Findings&);
void add_rank_causes(const RunEvidence&, Findings&);
void add_network_causes(const RunEvidence&, Findings&);
void add_step_causes(const RunEvidence&, Findings&);
void add_core_causes(const RunEvidence&, Findings&);
void add_gpu_causes(const RunEvidence&, Findings&);
void add_memory_causes(const RunEvidence&, Findings&);

// What the causes need and the run has not measured, because this machine does not or because it
// has not happened yet: in words, each once, with the reason where it is known. Requires: there is
// a rank.
std::vector<std::string> not_measured(const RunEvidence&);

}  // namespace dtrain::diagnose
