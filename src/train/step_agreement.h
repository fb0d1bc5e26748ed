#pragma once

// Turns the requests of single ranks (stop, save, evaluate, log, verdict now) into actions of all
// ranks at the same step boundary. The exchange runs beside the step: the requests of one boundary
// are granted at the next one, so no step waits for it.
//
// Thread-safety: none; the training thread owns it. Ownership: borrows the communicator, for
// CPU tensors.

#include <torch/types.h>

#include "dist/communicator.h"

namespace dtrain::train {

struct Requests {
  bool stop = false;  // a signal asked the run to save and stop
  bool save = false;  // these three: the minutes of an interval are over, see IntervalTrigger
  bool evaluate = false;
  bool log = false;
  bool verdict = false;  // a signal asked for the verdict so far
};

class StepAgreement {
 public:
  explicit StepAgreement(dist::Communicator& host);

  // What any rank requested at the previous step boundary; on one rank, what it requests now.
  // Collective: every rank calls it once per step boundary.
  Requests exchange(const Requests& mine);
  // The same, but what is requested now is granted now, on any number of ranks. Waits: for use
  // before the first step.
  Requests exchange_now(const Requests& mine);
  const Requests& granted() const { return granted_; }  // result of the last exchange

  // waits for the exchange in flight: before the communicator is used for something else or closed
  void settle();

 private:
  dist::Communicator& host_;
  Requests granted_;
  at::Tensor flags_;  // [5] int64
  dist::Work pending_;
  bool in_flight_ = false;
};

}  // namespace dtrain::train
