#pragma once

// What keyed dropout draws from: set by the trainer around forward (and again in recomputation), read by the layers.
// One per thread; nesting restores the outer one.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace dtrain::layers {

struct RandomContext {
  uint64_t seed = 0;
  int64_t step = 0;       // optimizer step
  at::Tensor sample_ids;  // [B] int64 on the device of the activations
};

class RandomScope {
 public:
  explicit RandomScope(RandomContext);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;

 private:
  const RandomContext* outer_;
  RandomContext context_;
};

const RandomContext* current_random_context();  // nullptr outside a scope

// Dropout whose mask is a function of (seed, step, sample id, layer, element of the sample): the same for any batch
// composition. input [B, ...]; training only. Throws Error when there is no RandomScope.
at::Tensor keyed_dropout(const at::Tensor& input, double p, int64_t layer);

// keyed_dropout as a layer, for the place that torch's Dropout has in a Sequential. `layer`: its ordinal.
class KeyedDropoutImpl : public torch::nn::Module {
 public:
  KeyedDropoutImpl(double p, int64_t layer) : p_(p), layer_(layer) {}
  at::Tensor forward(const at::Tensor& x) { return is_training() && p_ > 0 ? keyed_dropout(x, p_, layer_) : x; }

 private:
  double p_;
  int64_t layer_;
};
TORCH_MODULE(KeyedDropout);

// Int64 [B] on the device without stopping the host: from pinned memory, which its allocator keeps until the copy is
// done.
at::Tensor ids_on(at::Device device, const std::vector<int64_t>& ids);

}  // namespace dtrain::layers
