// The part of the CUDA runtime that is about memory. Where kernels do not run, what a GPU has
// computed is not known: a copy to the host reads zeros, which are finite and ask for nothing.

#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "cuda/capture.h"
#include "cuda/counts.h"
#include "cuda/faults.h"
#include "cuda/gpus.h"
#include "cuda/memory.h"
#include "cuda/settings.h"
#include "cuda/stream.h"

namespace fake_gpu {
namespace {

cudaError_t take(void** block, int gpu, size_t bytes, const char* name) {
  FAKE_GPU_RETURN_IF_FAILED();
  if (const cudaError_t error = check_host_may_wait(); error != cudaSuccess) return remember(error);
  use_context(current_gpu());
  count(Operation::kAllocation, name);
  *block = allocate(gpu, bytes);
  return *block == nullptr ? remember(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t give_back(void* block, const char* name) {
  FAKE_GPU_RETURN_IF_FAILED();
  if (block == nullptr) return cudaSuccess;
  if (const cudaError_t error = check_host_may_wait(); error != cudaSuccess) return remember(error);
  count(Operation::kAllocation, name);
  finish_gpu(current_gpu());
  return release(block) ? cudaSuccess : remember(cudaErrorInvalidValue);
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return "host to host";
    case cudaMemcpyHostToDevice:
      return "host to device";
    case cudaMemcpyDeviceToHost:
      return "device to host";
    case cudaMemcpyDeviceToDevice:
      return "device to device";
    default:
      return "by address";
  }
}

bool is_on_a_gpu(const void* address) { return place_of(address).value_or(kHost) != kHost; }

void copy(void* to, const void* from, size_t bytes) {
  if (settings().numbers.empty() && is_on_a_gpu(from) && !is_on_a_gpu(to)) {
    std::memset(to, 0, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
}

bool is_pageable(const void* address) { return !place_of(address).has_value(); }

// A capture has no copies of memory that is not pinned.
cudaError_t check_recordable(cudaStream_t stream, const void* to, const void* from) {
  return is_pageable(to) || is_pageable(from) ? remember(check_not_captured(stream)) : cudaSuccess;
}

void wait_for(cudaStream_t stream) {
  if (work_waits()) finish(submit_later(queue_of(stream), {}));
}

// A copy as the stream does it. One from memory that is not pinned reads it before the call
// returns, and one to such memory is done then.
cudaError_t copy_on(cudaStream_t stream, void* to, const void* from, size_t bytes,
                    cudaMemcpyKind kind) {
  if (const cudaError_t error = check_recordable(stream, to, from); error != cudaSuccess)
    return error;
  if (!work_waits() || !is_pageable(from)) {
    const cudaError_t error =
        submit(stream, Operation::kCopy, name_of(kind), [=] { copy(to, from, bytes); });
    if (is_pageable(to)) wait_for(stream);
    return error;
  }
  const auto* begin = static_cast<const char*>(from);
  return submit(
      stream, Operation::kCopy, name_of(kind),
      [to, kept = std::vector<char>(begin, begin + bytes)] { copy(to, kept.data(), kept.size()); });
}

}  // namespace
}  // namespace fake_gpu

using namespace fake_gpu;

extern "C" {

cudaError_t cudaMalloc(void** block, size_t bytes) {
  return take(block, current_gpu(), bytes, "cudaMalloc");
}

cudaError_t cudaFree(void* block) { return give_back(block, "cudaFree"); }

cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned) {
  return take(block, kHost, bytes, "cudaHostAlloc");
}

cudaError_t cudaMallocHost(void** block, size_t bytes) {
  return take(block, kHost, bytes, "cudaMallocHost");
}

cudaError_t cudaFreeHost(void* block) { return give_back(block, "cudaFreeHost"); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  *total = settings().memory;
  *free = *total - used(current_gpu());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const std::optional<int> place = place_of(address);
  *attributes = {};
  attributes->type = !place           ? cudaMemoryTypeUnregistered
                     : place == kHost ? cudaMemoryTypeHost
                                      : cudaMemoryTypeDevice;
  if (!place) return cudaSuccess;
  attributes->device = place == kHost ? 0 : *place;
  attributes->devicePointer = const_cast<void*>(address);
  if (place == kHost) attributes->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_on(stream, to, from, bytes, kind);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = check_host_may_wait(cudaStreamLegacy); error != cudaSuccess)
    return remember(error);
  count(Operation::kWait, "cudaMemcpy");
  const cudaError_t error = copy_on(nullptr, to, from, bytes, kind);
  wait_for(nullptr);
  return error;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return submit(stream, Operation::kCopy, "peer", [=] { copy(to, from, bytes); });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (const cudaError_t error = check_recordable(stream, to, from); error != cudaSuccess)
    return error;
  const cudaError_t error = submit(stream, Operation::kCopy, name_of(kind), [=] {
    for (size_t row = 0; row < height; ++row) {
      copy(static_cast<char*>(to) + row * to_pitch,
           static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
  if (is_pageable(to) || is_pageable(from)) wait_for(stream);
  return error;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return submit(stream, Operation::kMemset, "bytes", [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

}  // extern "C"
