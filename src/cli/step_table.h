#pragma once

// The phases of a measured step as columns of a table and as JSON, the same in every command that
// shows them.

#include <cstddef>
#include <string>
#include <vector>

#include "text/text_table.h"
#include "train/measured_steps.h"

namespace dtrain::cli {

// Means per optimizer step, in seconds, of one rank, or over ranks.
struct MeanStep {
  double step = 0, other = 0;
  train::PhaseClock::Seconds phases{};
  double own() const;  // without the wait for other ranks
};

MeanStep mean_of(const std::vector<train::MeasuredSteps>&);

// The ranks for a table: those that take longest for their own work, in rank order. `ranks`: one
// MeanStep per rank.
std::vector<size_t> ranks_to_show(const std::vector<MeanStep>& ranks);

std::string milliseconds(double seconds);
void add_headings(TextRow& header);             // step, data, h2d, fwd, bwd, comm, opt, other
void add_times(TextRow& row, const MeanStep&);  // below these, in milliseconds
std::string to_json(const MeanStep&);  // an object: step_seconds, phase_seconds, other_seconds
std::string to_json(const train::StepMemory&);  // an object: bytes by kind

}  // namespace dtrain::cli
