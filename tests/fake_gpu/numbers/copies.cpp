#include <ATen/ATen.h>
#include <ATen/ops/copy_native.h>

#include "numbers/compute.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

// Copies from and to the host are LibTorch's, which asks the runtime for them.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  if (!self.is_cuda() || !from.is_cuda()) return at::native::copy_(self, from, non_blocking);
  compute(self.device(), "copy_", [to = on_host(self), from = on_host(from)] { to.copy_(from); });
  return self;
}

}  // namespace

void add_copies(torch::Library& library) { library.impl("copy_", TORCH_FN(copy_)); }

}  // namespace fake_gpu
