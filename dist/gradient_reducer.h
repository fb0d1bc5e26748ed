#pragma once

// Owns the gradients: flat buckets whose views, with each parameter's own strides, are the parameters' .grad. On the
// last micro-step of an optimizer step a bucket is sent as soon as backward has filled it, in one fixed order on all
// ranks; on earlier micro-steps nothing travels. The last bucket to be sent has two extra elements: sums of loss and
// weight.
//
// The set of parameters in use is agreed at the first step on which a rank has samples (one host reduction; the buckets
// of that step leave in finish()): unused ones are named once by rank 0 and left out of the buckets, then their grad is
// undefined. A later deviation is a CommError of finish() naming parameter and rank; the rank that throws has to end
// the job.
//
// One step: for each micro-step { arm(); if it has samples { add_loss(); backward } } finish(); use; zero().
// Thread-safety: hooks run on autograd's thread for the device, everything else on the training thread.
// Ownership: owns buckets and hooks (a tensor has one slot for such a hook); borrows the communicators.

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
    bool name_unused = true;  // rank 0 warns of parameters that no gradient reaches
  };
  // `gradients` carries buckets; `host` (CPU tensors) agrees on the parameters in use. Parameters: float32 or float64
  // leaves of one device, dense in memory, each listed once. CommError if the ranks' lists differ. Collective.
  GradientReducer(std::vector<NamedParameter> parameters, Communicator& gradients, Communicator& host, Options options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Before each micro-step. Without samples no backward follows; on the last one this rank's part is then done and
  // sent.
  void arm(bool last_micro_step, bool has_samples = true);
  // Device scalars, accumulated over micro-steps in the gradients' dtype without host synchronisation. Before backward,
  // because the bucket that carries them may leave during it.
  void add_loss(const at::Tensor& sum, const at::Tensor& weight);
  void finish();  // after the last backward: all buckets are sums over ranks (on the current stream)
  void zero();    // flat buckets and extra elements to zero; the views stay

  const std::vector<at::Tensor>& flat() const;  // gradient part of each bucket, 1-D, zeros between parameters
  at::Tensor loss_sum() const;                  // device scalars of the last finish(), until the next one
  at::Tensor weight_sum() const;
  const std::vector<NamedParameter>& parameters() const;  // those in use, in the given order
  const std::vector<std::string>& unused() const;         // names left out, after the first finish()
  int64_t bytes_per_step() const;                         // sent by this rank into all_reduce
  double seconds_to_first_bucket() const;  // from arm(true) to the launch of the first bucket (straggler's clock)
  double wait_seconds() const;  // of the last finish(): communication that backward did not hide (host clock)

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::dist
