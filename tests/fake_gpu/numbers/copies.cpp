#include <ATen/ATen.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/record_stream_native.h>

#include "cuda/waits.h"
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

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  if (waits_here("record_stream")) at::native::record_stream_cuda(tensor, stream);
}

}  // namespace

void add_copies(torch::Library& library) {
  library.impl("copy_", TORCH_FN(copy_));
  library.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace fake_gpu
