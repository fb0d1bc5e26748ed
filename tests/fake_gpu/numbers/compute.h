#pragma once

// What the operators of this folder share: a tensor of the fake GPU is memory of the host, so the
// CPU's kernels compute on it, as work of the GPU's current stream.
//
// Thread-safety: all functions may be called from any thread.

#include <ATen/ATen.h>

#include <functional>
#include <optional>

namespace fake_gpu {

// A CPU tensor over the memory of one on a fake GPU; it owns nothing. Others are returned as is.
at::Tensor on_host(const at::Tensor&);
at::Tensor on_host(const std::optional<at::Tensor>&);  // undefined: where there is none

// A tensor on the GPU of the shape, type and memory format of another one.
at::Tensor like(const at::Tensor&);

// Does `work` on the current stream of `device`, without autograd and autocast. `work` must own
// what it uses but the memory of the GPU, which a GPU's kernel does not own either. `name` must
// live until the process ends. An exception ends the process. A captured stream does `work` as
// often as the graph is launched.
void compute(at::Device device, const char* name, std::function<void()> work);

// Returns when the current stream has done its work. An error, if the stream is captured.
void finish_stream(at::Device device);

// float32 for float16 and bfloat16, as kernels of a GPU compute; others as they are.
at::Tensor wide(const at::Tensor&);

}  // namespace fake_gpu
