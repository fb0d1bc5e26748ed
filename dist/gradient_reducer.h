#pragma once

// Owns the gradients: flat buckets whose views, with each parameter's own strides, are the parameters' .grad. On the last
// micro-step of an optimizer step a bucket is sent as soon as backward has filled it, in one fixed order on all ranks;
// on earlier micro-steps nothing travels. The last bucket to be sent has two extra elements: sums of loss and weight.
//
// The set of parameters in use is agreed at the first step (one host reduction): unused ones are named once and left out
// of buckets (then their grad is undefined); a later deviation is a CommError naming parameter and rank. A rank without a
// sample calls arm(true) and finish() with no backward between: its zeros are sent.
// Thread-safety: hooks run on autograd's thread for the device, everything else on the training thread.
// Ownership: owns buckets and hooks; borrows the communicators.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/buckets.h"
#include "dist/communicator.h"

namespace dtrain::dist {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // leaf with requires_grad
};

class GradientReducer {
 public:
  struct Options {
    int64_t cap_bytes = 25 << 20;
    int64_t first_bytes = 1 << 20;
  };
  // `gradients` carries buckets; `host` (CPU tensors) agrees on the parameters in use. Collective.
  GradientReducer(std::vector<NamedParameter> parameters, Communicator& gradients, Communicator& host, Options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;

  void arm(bool last_micro_step);                                     // before each backward
  void add_loss(const at::Tensor& sum, const at::Tensor& weight);     // device scalars; accumulates over micro-steps
  void finish();                  // after the last backward: all buckets are sums over ranks (on the current stream)
  void zero();                    // flat buckets and extra elements to zero; the views stay

  const std::vector<at::Tensor>& flat() const;    // gradient part of each bucket, 1-D
  at::Tensor loss_sum() const;    // device scalars, valid after finish()
  at::Tensor weight_sum() const;
  const std::vector<NamedParameter>& parameters() const;  // those in use, in the given order
  const std::vector<std::string>& unused() const;         // names left out, after the first finish()
  int64_t bytes_per_step() const;
  double seconds_to_first_bucket() const;   // from arm(true) to the launch of the first bucket (straggler's clock)
  double wait_seconds() const;              // of the last finish(): communication that backward did not hide (CPU clock)

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::dist
