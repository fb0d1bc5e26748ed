#pragma once

// What the ranks have measured of their steps, gathered at logging steps to rank 0: the evidence for the verdict. The
// first steps of a process are left out, because they allocate memory and start threads, and of very long runs the
// newest steps are kept. Thread-safety: none; the training thread owns it. Ownership: borrows the communicator.

#include <cstdint>
#include <vector>

#include "diagnose/evidence.h"
#include "dist/communicator.h"
#include "monitoring/step_times.h"
#include "train/train_context.h"

namespace dtrain::train {

class RunMeasurements {
 public:
  static constexpr size_t kWarmUpSteps = 5;

  explicit RunMeasurements(dist::Communicator& host);

  // The steps that this rank has ended since the last call; every rank has ended the same. Collective.
  void gather(const std::vector<monitoring::StepTimes>& own);

  // By rank, of the same steps. Rank 0 knows those of all ranks, other ranks nothing.
  const std::vector<diagnose::Steps>& steps() const { return steps_; }
  // The means over the last gathered steps, by rank; none where no step had ended. Rank 0.
  const std::vector<monitoring::StepTimes>& window() const { return window_; }

 private:
  dist::Communicator& host_;
  size_t most_;      // steps that are kept
  size_t left_out_;  // of warm-up, still to come
  std::vector<diagnose::Steps> steps_;
  std::vector<monitoring::StepTimes> window_;
};

// What diagnose::judge() takes. `padding_waste`: Consumption::Report. Rank 0; empty on the others.
diagnose::RunEvidence evidence_of(const TrainContext&, const RunMeasurements&, double padding_waste);

}  // namespace dtrain::train
