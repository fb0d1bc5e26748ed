#pragma once

// What one rank wishes (stop, save, evaluate, log now) becomes what all ranks do at the same step boundary. The
// exchange runs beside the step: the wishes of one boundary are the decision of the next, so that no step waits for it.

#include <torch/torch.h>

#include "dist/communicator.h"

namespace dtrain::train {

struct Wishes {
  bool stop = false;  // a signal asked to save and leave
  bool save = false;  // an interval in minutes is over: checkpoint.every, train.eval_every, run.log_every
  bool evaluate = false;
  bool log = false;
};

class StepAgreement {
 public:
  explicit StepAgreement(dist::Communicator& host);
  // Collective: once per step boundary. Returns what any rank wished at the boundary before (one rank: at this one).
  Wishes exchange(Wishes mine);
  void settle();  // waits for the exchange under way, before the communicator is used for something else or closed

 private:
  dist::Communicator& host_;
  at::Tensor flags_;  // [4] int64
  dist::Work pending_;
  bool under_way_ = false;
};

}  // namespace dtrain::train
