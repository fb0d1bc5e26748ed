#pragma once

// The evidence for the verdict of a run, in the words of diagnose/: what was measured of its steps,
// its loaders, its machines and its network, and the settings that it runs with.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/evidence.h"
#include "dist/cost_fit.h"
#include "dist/gradient_reducer.h"
#include "measure/run_measurements.h"
#include "train/batch_arithmetic.h"
#include "train/measured_steps.h"
#include "train/train_context.h"

namespace dtrain::train {

// What the gradients of a step send. Without a cost it is not known what that takes.
// `first_mebibytes`: the size of the first bucket (dist.first_bucket_mb); no other is smaller.
diagnose::NetworkUse network_use(const dist::GradientReducer&,
                                 const std::optional<dist::CostFit>& cost, double first_mebibytes);

// Seconds of a mean step of `steps`, of this rank, if its batches were in memory. `headroom` was
// measured on other steps: its time is scaled by the cells of padded batches, or else by samples.
// NaN: it was not measured. Pure.
double cached_step_for(const MeasuredSteps& headroom, const diagnose::Steps& steps,
                       const BatchArithmetic&);

// What was measured of ranks and hosts, without settings. `steps`:
// measure::RunMeasurements::steps(); `nodes`: the host names of the ranks. Pure.
diagnose::RunEvidence evidence_of(const std::vector<diagnose::Steps>& steps,
                                  const measure::Windows&, const std::vector<std::string>& nodes);

// What diagnose::judge() takes, but for what is measured before training. `done`: optimizer steps
// of the run. Rank 0; empty on the others.
diagnose::RunEvidence evidence_of(const TrainContext&, const measure::RunMeasurements&,
                                  const std::vector<std::string>& nodes, int64_t done);

}  // namespace dtrain::train
