#pragma once

// What the random draws of a step are keyed by, where the kernels that draw find it: seed,
// optimizer step, epoch and sample ids are tensors on the device of the activations, not arguments
// of a kernel. So the same kernels with the same arguments, as a CUDA graph launches them, draw
// other numbers when these tensors have other values. They reach the layers through a RandomScope,
// which the trainer opens around forward.
//
// Thread-safety: a RandomScope applies to the thread that created it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dtrain::layers {

struct RandomContext {
  at::Tensor seed, step;  // int64 scalars; the seed has the bits of an unsigned number
  at::Tensor sample_ids;  // [B] int64
  at::Tensor epoch = {};  // int64 scalar
};

// A context whose numbers lie in memory of their own, on the device of the ids. The host does
// not wait.
RandomContext random_context(uint64_t seed, int64_t step, const at::Tensor& sample_ids,
                             int64_t epoch = 0);

// Makes the context current. Scopes nest: the destructor makes the outer context current again.
class RandomScope {
 public:
  explicit RandomScope(RandomContext);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  const RandomContext* outer_;
  RandomContext context_;
};

const RandomContext* current_random_context();  // nullptr outside a scope

// The number at this address of the device: of an int64 scalar on `device`. Error if the tensor
// is none.
const int64_t* place_of(const at::Tensor& number, at::Device device);

// The ids as int64 [B] on the device. The host does not wait: the copy is from pinned memory, which
// the allocator keeps until the copy has finished.
at::Tensor ids_on(at::Device device, const std::vector<int64_t>& ids);

}  // namespace dtrain::layers
