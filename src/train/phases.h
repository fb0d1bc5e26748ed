#pragma once

// What of a run changes with the task's phase: which parameters learn, with which reducer and which optimizer. A phase
// is a function of the epoch, so that a resume lands in the right one. The reducer is made anew on entering (a tensor
// has one slot for its hook); an optimizer, once made, keeps its moments until its phase comes again.
// Thread-safety: none; the training thread owns it. Ownership: owns reducer and optimizers; borrows the rest.

#include <torch/torch.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "dist/gradient_reducer.h"
#include "tasks/task.h"
#include "train/optimizer.h"

namespace dtrain::train {

class Phases {
 public:
  Phases(tasks::Task&, const config::Config&, dist::Communicator& gradients, dist::Communicator& host);

  // Collective where the phase changes; otherwise nothing happens. Error if the phase has nothing to train.
  void enter(int64_t epoch);
  const std::string& name() const { return name_; }
  dist::GradientReducer& reducer() { return *reducer_; }
  Optimizer& optimizer() { return *optimizers_.at(name_); }

  // Of all phases entered so far: "exp_avg.NAME"; with more than one phase in the run "PHASE/exp_avg.NAME".
  checkpoint::NamedTensors state() const;
  // CheckpointError as of Optimizer::load(). Not collective; enter() has to follow before the next step.
  void load(const checkpoint::NamedTensors&);

 private:
  std::vector<dist::NamedParameter> set_up(const std::string& phase);

  tasks::Task& task_;
  const config::Config& config_;
  dist::Communicator& gradients_;
  dist::Communicator& host_;
  std::vector<std::string> names_;  // of all phases of the run, in order
  std::string name_;                // entered; "": none yet
  size_t frozen_ = 0;               // parameters that model.freeze names
  std::set<std::string> entered_;   // so far: what no gradient reaches is said the first time only
  std::unique_ptr<dist::GradientReducer> reducer_;
  std::map<std::string, std::unique_ptr<Optimizer>> optimizers_;
};

// The names of the phases of the first `epochs` epochs, in order of their first appearance.
std::vector<std::string> phases_of(const tasks::Task&, int64_t epochs);

// Enters each of them once: ConfigError if model.freeze names nothing, or leaves one of them nothing to train. For the
// start of a run, before anything is written.
void check_phases(tasks::Task&, const config::Config&);

}  // namespace dtrain::train
