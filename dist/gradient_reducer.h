#pragma once

// Owns the gradients and sums them over ranks. Gradients live in flat buckets. On the CPU each
// parameter's .grad is a view of its bucket with the parameter's own strides, to which backward
// adds. On a GPU that would be one launch for each parameter: there .grad is what backward has
// written until the bucket's parameters have all arrived, is added to the bucket with them, and is
// the view between finish() and zero() only. On the last micro-step of an optimizer step a bucket
// is sent as soon as backward has filled it, in one fixed order on all ranks; on earlier
// micro-steps nothing is sent. Behind the last bucket travel the sums of loss and weight, in
// float64: bfloat16 cannot count beyond 256. Buckets hold sums, which the caller's one pass over
// them divides; so the sums of NCCL that multiply beforehand are not used.
//
// The ranks agree on the set of parameters in use at the first step in which a rank has samples
// (one host reduction; the buckets of that step are sent by finish()). Unused parameters are named
// once by rank 0 and left out of the buckets; their grad is undefined from then on. A later
// deviation is a CommError of finish() that names parameter and rank; the rank that throws has to
// end the job.
//
// One step: for each micro-step { arm(); if it has samples { add to running_sums(); backward } }
// finish(); use; zero().
//
// Thread-safety: hooks run on autograd's thread for the device, everything else on the
// training thread.
// Ownership: owns buckets and hooks (a tensor has one slot for such a hook); borrows
// the communicators.

#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/backward_times.h"
#include "dist/buckets.h"
#include "dist/communicator.h"
#include "trace/recorder.h"

namespace dtrain::dist {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // leaf with requires_grad
};

// A bucket in one step, and after which share of the last backward pass it was ready to be sent.
struct BucketTime {
  int64_t bytes = 0;
  double ready = 1;
};

class GradientReducer {
 public:
  struct Options {
    int64_t cap_bytes = 25 << 20;
    int64_t first_bytes = 1 << 20;
    // Type on the way, if it is narrower (dist/bucket_transfer.h)
    std::optional<at::ScalarType> wire = {};
    bool name_unused = true;  // rank 0 warns about parameters that receive no gradient
    // Whether gradients are added to their bucket together, as on a GPU; default: by the device
    std::optional<bool> gather = {};
    trace::Track* track = nullptr;  // receives when each bucket is ready and when it is sent
    // Borrowed; for backward_times() on the CPU
    const Clock* clock = &real_clock();
  };
  // `gradients` carries the buckets; `host` (CPU tensors) serves to agree on the parameters in use.
  // Parameters are float32 or float64 leaves on one device, dense in memory, each listed once.
  // CommError if the ranks' lists differ. Collective.
  GradientReducer(std::vector<NamedParameter> parameters, Communicator& gradients,
                  Communicator& host, Options options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Call it before each micro-step. Without samples no backward follows; on the last micro-step
  // this rank then sends its buckets at once.
  void arm(bool last_micro_step, bool has_samples = true);
  // float64 [2] on the device: the sums of loss and weight of this rank in this step. The caller
  // adds those of a micro-step between arm() and backward, because they are sent with the last
  // bucket, which may leave during backward. Error at another time.
  const at::Tensor& running_sums() const;
  void begin_backward();  // call it where backward begins; backward_times() counts from here
  // Call it where the backward pass of an earlier micro-step ends: its gradients are in the
  // buckets. finish() does so for the last one.
  void end_backward();
  // After the last backward: all buckets become sums over ranks (ordered on the current
  // stream). Collective.
  void finish();
  // The pass that arm() began is given up: nothing of it is sent, and finish() is not called.
  void abandon();
  void zero();  // flat buckets and the sums of loss and weight become zero

  // All that a step changes: flat(), the sums of this step, and those of the last one
  std::vector<at::Tensor> tensors() const;
  // The number of the bucket that has the gradient of this parameter; 0 if none has.
  size_t bucket_of(const at::Tensor& parameter) const;
  const std::vector<at::Tensor>& flat() const;  // the buckets, 1-D, zeros between parameters
  at::Tensor loss_sum() const;  // float64 device scalars of the last finish(), until the next one
  at::Tensor weight_sum() const;
  int64_t bytes_per_step() const;  // given by this rank to all_reduce
  int64_t memory_bytes() const;    // buckets, what travels in their place, sums of loss and weight
  // Covers the last micro-step; has no times before begin_backward()
  const BackwardTimes& backward_times() const;
  void forget_backward_times();  // they are of an earlier pass
  // Whether the ranks have agreed on the parameters in use: the buckets stay as they are.
  bool agreed() const;
  // Bytes on the way of each bucket, in the order in which they are sent
  std::vector<int64_t> bucket_bytes() const;
  // If Options::cap_bytes were this
  std::vector<int64_t> bucket_bytes_with(int64_t cap_bytes) const;

  // For measurements: whether the following steps note when each of their buckets is ready, on the
  // device's clock.
  void time_buckets(bool on);
  // The buckets of the last step, in the order of sending; waits for the device. Empty if the step
  // was not timed, or had no samples.
  std::vector<BucketTime> bucket_times() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::dist
