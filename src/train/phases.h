#pragma once

// What changes with the phase of the task: which parameters learn, with which reducer and which
// optimizer. The phase is a function of the epoch, so that a resumed run continues in the right
// one. Entering a phase makes a new reducer, because a tensor has one slot for its hook. The
// optimizer of a phase is made once and keeps its moments until the phase comes again.
// Thread-safety: none; the training thread owns it. Ownership: owns reducer and optimizers; borrows
// the rest.

#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "dist/gradient_reducer.h"
#include "tasks/task.h"
#include "train/optimizer.h"

namespace dtrain::train {

// A phase of a run, and how many of its epochs have it.
struct RunPhase {
  tasks::TrainingPhase phase;
  int64_t first_epoch = 0, epochs = 0;
};

// The phases of the first `epochs` epochs, each once, in order of their first appearance.
std::vector<RunPhase> phases_of(const tasks::Task&, int64_t epochs);

// Enters each of them once, at the start of a run and before anything is written. ConfigError if
// model.freeze names no parameter, or leaves a phase nothing to train.
void check_phases(tasks::Task&, const config::Config&);

class Phases {
 public:
  Phases(tasks::Task&, const config::Config&, dist::Communicator& gradients,
         dist::Communicator& host, trace::Recorder* recorder = nullptr);

  // What an all-reduce costs, from which the size of buckets follows where dist.bucket_mb is 0: for
  // the phases that are entered from now on. Without it that size is the default of dist/buckets.h.
  void use_cost(const dist::CostFit& cost) { all_reduce_cost_ = cost; }

  // Whether the phase changes. Collective where it does; otherwise nothing happens. Error if the
  // phase has nothing to train.
  bool enter(int64_t epoch);
  // Requires: enter() was called.
  const tasks::TrainingPhase& current() const { return *current_; }
  dist::GradientReducer& reducer() { return *reducer_; }
  Optimizer& optimizer() { return *optimizers_.at(current().name); }
  int64_t moment_bytes() const;  // total over all phases entered so far

  // The moments of all phases entered so far: "exp_avg.NAME", or "PHASE/exp_avg.NAME" in a run of
  // more than one phase.
  checkpoint::NamedTensors state() const;
  // CheckpointError as of Optimizer::load(). Not collective; enter() has to follow before the
  // next step.
  void load(const checkpoint::NamedTensors&);

 private:
  dist::GradientReducer::Options buckets_for(const std::vector<dist::NamedParameter>&) const;
  // If it has none
  void make_optimizer(const tasks::TrainingPhase&, const std::vector<dist::NamedParameter>&);

  tasks::Task& task_;
  const config::Config& config_;
  dist::Communicator& gradients_;
  dist::Communicator& host_;
  std::vector<RunPhase> phases_;                 // ordered by first epoch
  dist::CostFit all_reduce_cost_;                // 0: unknown
  std::optional<tasks::TrainingPhase> current_;  // none: enter() has to set it up
  trace::Track* buckets_;                        // trace track of the reducers; nullptr: no trace
  std::set<std::string> entered_;  // so far: what no gradient reaches is said the first time only
  std::unique_ptr<dist::GradientReducer> reducer_;
  std::map<std::string, std::unique_ptr<Optimizer>> optimizers_;
};

}  // namespace dtrain::train
