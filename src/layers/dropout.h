#pragma once

// Keyed dropout: the mask of a sample is a function of (seed, optimizer step, sample id, layer,
// element of the sample), so it is the same whatever batch the sample is in and on however many
// ranks the run trains. All but the layer and the element come from the current RandomContext.

#include <torch/nn/module.h>

#include <cstdint>

#include "layers/packed_steps.h"
#include "layers/random_context.h"

namespace dtrain::layers {

// Drops elements of input [B, ...] with probability p in [0, 1) and scales the others by 1 / (1 -
// p), like torch's dropout in training. `layer` numbers the dropout layers of a network. Error
// outside a RandomScope, unless p is 0.
at::Tensor keyed_dropout(const at::Tensor& input, double p, int64_t layer);

// The same as a layer without parameters: the identity in evaluation mode and for p = 0.
class KeyedDropoutImpl : public torch::nn::Module {
 public:
  KeyedDropoutImpl(double p, int64_t layer) : p_(p), layer_(layer) {}

  at::Tensor forward(const at::Tensor& x);  // [B, ...]

  // [T, B, ...], time first. The masks are numbered with time after batch, so that the mask of a
  // sample does not depend on the length that the batch is padded to.
  at::Tensor forward_time_first(const at::Tensor& x);

  // The same of packed rows [N, C] on the CPU: each row is dropped as in forward_time_first(). The
  // ids of the RandomScope are those of the batch, not of the packed order.
  at::Tensor forward_packed(const at::Tensor& x, const PackedSteps&);

 private:
  bool drops() const { return is_training() && p_ > 0; }

  double p_;
  int64_t layer_;
};
TORCH_MODULE(KeyedDropout);

}  // namespace dtrain::layers
