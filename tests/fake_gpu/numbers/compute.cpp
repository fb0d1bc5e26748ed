#include "numbers/compute.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "cuda/stream.h"

namespace fake_gpu {
namespace {

// The CPU's kernels of several threads would each want all cores.
std::mutex& one_at_a_time() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

void run(const char* name, const std::function<void()>& work) {
  const std::lock_guard lock(one_at_a_time());
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::NoGradGuard no_grad;
  try {
    work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake GPU: %s: %s\n", name, error.what());
    std::abort();
  }
}

// Writes NaN to memory that goes back to LibTorch's allocator, in the order of its stream: whoever
// uses it after that, on another stream too, has wrong numbers. What is freed in a capture and
// belongs to the pool of a graph is overwritten by each launch, at that place. What is freed later
// stays the graph's, and launches that are not over may use it.
void poison_freed_memory() {
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const Entry& entry) {
    if (entry.action_ != Entry::FREE_COMPLETED) return;
    auto* block = reinterpret_cast<void*>(entry.addr_);
    const auto step = [block, size = entry.size_](const std::shared_ptr<Queue>& queue) {
      return give(queue, [block, size] { std::memset(block, 0xff, size); });
    };
    const auto stream = static_cast<cudaStream_t>(entry.stream_);
    if (entry.mempool_ != c10::MempoolId_t{0, 0}) {
      record(stream, step, false);
    } else {
      step(queue_of(stream));
    }
  });
}

}  // namespace

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  TORCH_CHECK(tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg(),
              "fake GPU: a tensor that is not plain");
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::TensorOptions options = tensor.options().device(at::kCPU).requires_grad(false);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

at::Tensor on_host(const std::optional<at::Tensor>& tensor) {
  return on_host(tensor.value_or(at::Tensor()));
}

at::Tensor like(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().memory_format(tensor.suggest_memory_format()));
}

void compute(at::Device device, const char* name, std::function<void()> work) {
  static std::once_flag poisons;  // not before LibTorch has made its allocator
  std::call_once(poisons, poison_freed_memory);
  const c10::cuda::CUDAGuard guard(device);
  const cudaError_t error = launch(c10::cuda::getCurrentCUDAStream(), name,
                                   [name, work = std::move(work)] { run(name, work); });
  C10_CUDA_CHECK(error);
}

void finish_stream(at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  C10_CUDA_CHECK(finish(c10::cuda::getCurrentCUDAStream()));
}

at::Tensor wide(const at::Tensor& tensor) {
  const bool narrow = tensor.defined() &&
                      (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16);
  return narrow ? tensor.to(at::kFloat) : tensor;
}

}  // namespace fake_gpu
