#pragma once

// What the ranks have measured of their steps and of their machines, gathered at logging steps to rank 0: the evidence
// for the verdict. The first steps of a process are left out, because they allocate memory and start threads, and of
// very long runs the newest steps are kept. Borrows the communicator. Thread-safety: none; the training thread owns it.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/evidence.h"
#include "dist/communicator.h"
#include "dist/cost_fit.h"
#include "dist/gradient_reducer.h"
#include "monitoring/rank_stats.h"
#include "train/resource_meter.h"
#include "train/train_context.h"

namespace dtrain::train {

class RunMeasurements {
 public:
  static constexpr size_t kWarmUpSteps = 5;

  // What all ranks measured between two logging steps, by rank.
  struct Window {
    size_t steps = 0;
    std::vector<ResourceSample> ranks;
  };

  explicit RunMeasurements(dist::Communicator& host);

  // The steps that this rank has ended since the last call; every rank has ended the same. `resources`: over the same
  // time. Collective.
  void gather(const std::vector<monitoring::StepTimes>& own, const ResourceSample& resources);

  // By rank, of the same steps. Rank 0 knows those of all ranks, other ranks nothing.
  const std::vector<diagnose::Steps>& steps() const { return steps_; }
  // The windows that those steps are of. Rank 0.
  const std::deque<Window>& windows() const { return windows_; }
  // The means over the last gathered steps, by rank; none where no step had ended. Of more than 64 ranks those 8 that
  // wait least for the others: they are the ones that the others wait for. Rank 0.
  const std::vector<monitoring::RankStats>& last() const { return last_; }
  const std::optional<monitoring::RankStats>& own() const { return own_; }  // of this rank, on every rank

 private:
  void keep(const std::vector<monitoring::StepTimes>& all, size_t count);

  dist::Communicator& host_;
  size_t most_;      // steps that are kept
  size_t left_out_;  // of warm-up, still to come
  std::vector<diagnose::Steps> steps_;
  std::deque<Window> windows_;
  std::vector<monitoring::RankStats> last_;
  std::optional<monitoring::RankStats> own_;
};

// What the gradients of a step send. Without a cost it is not known what that takes.
diagnose::NetworkUse network_use(const dist::GradientReducer&, const std::optional<dist::CostFit>& cost);

// What diagnose::judge() takes, but for what is measured before training. `nodes`: the host names of the ranks;
// `padding_waste`: Consumption::Report; `done`: optimizer steps of the run. Rank 0; empty on the others.
diagnose::RunEvidence evidence_of(const TrainContext&, const RunMeasurements&, const std::vector<std::string>& nodes,
                                  double padding_waste, int64_t done);

}  // namespace dtrain::train
