#pragma once

// Batch normalization (Ioffe & Szegedy 2015) of images, sequences and vectors, over all dimensions
// but the second. It has the parameters, the buffers and their order, and the results of torch's
// BatchNorm1d and BatchNorm2d. In addition, a layer can
//   - be frozen: it uses its running statistics and never changes them, even in training mode;
//   - share its statistics between all ranks, inside a SyncScope;
//   - use valid positions only, for sequences that are padded to a common length.
// Statistics are those of a micro-batch. float64 inputs are computed in float64 throughout, half
// precision in float32.
//
// Thread-safety: like any torch module, one forward pass at a time. Scopes and records apply to the
// calling thread.

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>

#include "layers/epilogue.h"

namespace dtrain::layers {

// Sums a float64 tensor in place over the ranks, on the tensor's device. Collective: every rank
// calls it in the same order, in forward and in backward (there possibly on a thread of autograd).
using SumOverRanks = std::function<void(at::Tensor&)>;

// Inside the scope, batch norm layers in training mode share their statistics. A rank without
// samples runs one sample of zeros with has_samples = false: it takes part in every reduction, adds
// nothing, and all its gradients are zero. Scopes nest. The scope may end before backward, because
// the graph keeps what backward needs.
class SyncScope {
 public:
  explicit SyncScope(SumOverRanks, bool has_samples = true);
  ~SyncScope();
  SyncScope(const SyncScope&) = delete;
  SyncScope& operator=(const SyncScope&) = delete;

  const SumOverRanks& reduce() const { return reduce_; }
  bool has_samples() const { return has_samples_; }

 private:
  SumOverRanks reduce_;
  bool has_samples_;
  const SyncScope* outer_;
};

const SyncScope* current_sync_scope();  // nullptr outside

using BatchNormStatistics = kernels::batch_norm::Statistics;  // over all ranks

class BatchNormImpl : public torch::nn::Module {
 public:
  explicit BatchNormImpl(int64_t channels, double eps = 1e-5, double momentum = 0.1);

  // [B, C, ...] -> the same shape. With a single value per channel, the result is the bias and the
  // running statistics do not change; Error if the first training batch outside a SyncScope is
  // like that.
  at::Tensor forward(const at::Tensor& input);
  // apply_epilogue(epilogue, forward(input)). On the CPU, and where own kernels take the input on a
  // GPU (norm_kernels.h), in the same pass over memory, and backward needs only the input, the
  // output where there is a residual, and a byte for each pooled output.
  at::Tensor forward_with(const at::Tensor& input, const Epilogue&);

  // Sample b of input [B, C, T] has lengths[b] <= T valid positions (int64 [B], on the device of
  // the input). The statistics are over valid positions only, and the output is zero at all others.
  // The result equals forward() of the concatenated valid positions, except that training may begin
  // with a single valid value (a sequence of one row). The activation follows.
  at::Tensor forward_valid(const at::Tensor& input, const at::Tensor& lengths,
                           Activation = Activation::kNone);

  // For layers that add up a training batch themselves: the statistics that it is normalized with,
  // from sums() of this rank (batch_norm_arithmetic.h). Sums them over the ranks in a SyncScope,
  // moves the running statistics, and records; while a record is replayed they are those of the
  // record, and sums() is not called.
  BatchNormStatistics batch_statistics(const at::Tensor& input,
                                       const std::function<at::Tensor()>& sums);

  void train(bool on = true) override;  // a frozen layer stays in evaluation mode
  void freeze();                        // permanent; weight and bias may still be trained
  bool frozen() const { return frozen_; }
  void reset_parameters();

  at::Tensor weight, bias;               // [C]
  at::Tensor running_mean, running_var;  // [C]; the unbiased variance
  at::Tensor num_batches_tracked;        // int64 scalar

 private:
  kernels::batch_norm::Running running() const;
  // Those of the record while it is replayed, else what is found, which a record keeps.
  BatchNormStatistics recorded(const std::function<BatchNormStatistics()>& find);
  at::Tensor normalize_by_batch(const at::Tensor& input, const at::Tensor& lengths,
                                const Epilogue&);
  at::Tensor normalize_by_running(const at::Tensor& input, const at::Tensor& lengths,
                                  const Epilogue&);

  double eps_, momentum_;
  bool frozen_ = false;
};
TORCH_MODULE(BatchNorm);

// Records what the batch norm layers of a segment did in forward, for its recomputation in
// backward: with `replay` they use the recorded statistics, without a collective, and do not change
// the running statistics.
struct BatchNormRecord {
  // Statistics in the order of the layers; none for layers that LibTorch computes
  std::vector<BatchNormStatistics> shared;
  size_t next = 0;
  bool replay = false;
};

// The record that the layers use inside the scope. Scopes nest.
class BatchNormRecordScope {
 public:
  explicit BatchNormRecordScope(BatchNormRecord*);  // nullptr: no record
  ~BatchNormRecordScope();
  BatchNormRecordScope(const BatchNormRecordScope&) = delete;
  BatchNormRecordScope& operator=(const BatchNormRecordScope&) = delete;

 private:
  BatchNormRecord* outer_;
};

}  // namespace dtrain::layers
