#pragma once

// Batch normalisation (Ioffe & Szegedy 2015) of images, sequences and vectors: over all dimensions but the second.
// Parameters, buffers, their order and the numbers are those of torch's BatchNorm1d and BatchNorm2d. Beyond them it
// can
//   - stay frozen: statistics used and never changed, whatever train() says;
//   - take its statistics over all ranks, inside a SyncScope;
//   - count valid positions only, of sequences padded to a common length.
// Statistics are per micro-batch. Works in float64 throughout; half precision is computed in float32.

#include <torch/torch.h>

#include <cstdint>
#include <functional>

namespace dtrain::layers {

// Sums a float64 tensor in place over the ranks, on its own device. Collective: every rank calls it in the same order,
// in forward and in backward (where the thread may be one of autograd's).
using SumOverRanks = std::function<void(at::Tensor&)>;

// Batch norm layers in training mode inside the scope share their statistics. A rank without samples runs one sample
// of zeros with has_samples = false: it takes part in every reduction, adds nothing, and all its gradients are zero.
// Of the calling thread; nesting restores the outer one. What backward needs is kept by the graph: the scope may end
// before it.
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

class BatchNormImpl : public torch::nn::Module {
 public:
  explicit BatchNormImpl(int64_t channels, double eps = 1e-5, double momentum = 0.1);

  // [B, C, ...] -> the same shape. One value per channel alone gives the bias and leaves the running statistics as they
  // are; Error if a training outside a SyncScope begins with it.
  at::Tensor forward(const at::Tensor& input);

  // input [B, C, T] of which sample b has lengths[b] <= T valid positions (int64 [B], on the device of the input):
  // statistics are over those alone, and the output is zero beyond them. The same as forward() of the valid positions
  // side by side, but that a training may begin with one valid value alone, such as a sequence of one row.
  at::Tensor forward_valid(const at::Tensor& input, const at::Tensor& lengths);

  void train(bool on = true) override;  // evaluation mode stays when frozen
  void freeze();                        // for good; weight and bias may still learn
  bool frozen() const { return frozen_; }
  void reset_parameters();

  at::Tensor weight, bias;               // [C]
  at::Tensor running_mean, running_var;  // [C]; the variance without bias
  at::Tensor num_batches_tracked;        // int64 scalar

 private:
  at::Tensor normalise_by_batch(const at::Tensor& input, const at::Tensor& lengths);

  double eps_, momentum_;
  bool frozen_ = false;
};
TORCH_MODULE(BatchNorm);

// What the batch norm layers of a segment did in forward, for its recomputation in backward: the second time they take
// the statistics that were shared, without a collective, and leave the running statistics as they are.
struct BatchNormRecord {
  struct Statistics {
    at::Tensor mean, invstd;  // [C], in the precision of the arithmetic
    at::Tensor count;         // float64 scalar: values per channel, over all ranks
  };
  std::vector<Statistics> shared;  // in order of the layers that share or mask
  size_t next = 0;
  bool replay = false;
};

// Of the calling thread; nesting restores the outer one.
class BatchNormRecordScope {
 public:
  explicit BatchNormRecordScope(BatchNormRecord*);  // nullptr: none, for a nested segment
  ~BatchNormRecordScope();
  BatchNormRecordScope(const BatchNormRecordScope&) = delete;
  BatchNormRecordScope& operator=(const BatchNormRecordScope&) = delete;

 private:
  BatchNormRecord* outer_;
};

}  // namespace dtrain::layers
