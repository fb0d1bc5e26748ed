#include "device/cuda_graph.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "core/check.h"

namespace dtrain::device {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// The first number of a pool is that of a graph; those of at::cuda::CUDAGraph count from 1.
constexpr CudaGraph::Memory kFirst = uint64_t{1} << 32;

c10::MempoolId_t pool_of(CudaGraph::Memory memory) { return {memory, 0}; }

// The number of the capture that the stream is in; none: it is not captured.
std::optional<unsigned long long> capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
  return status == cudaStreamCaptureStatusActive ? std::optional(id) : std::nullopt;
}

// What has begun, and has to end.
struct Begun {
  bool allocates = false, captures = false;
};

// Begins a capture, which allocates from the pool. Other threads may do what a capture must not: a
// thread that reads data allocates and asks events.
void begin(cudaStream_t stream, at::Device device, CudaGraph::Memory memory, Begun& begun) {
  const auto id = std::make_shared<std::atomic<unsigned long long>>(0);
  allocator::beginAllocateToPool(device.index(), pool_of(memory),
                                 [id](cudaStream_t asked) { return capture_of(asked) == *id; });
  begun.allocates = true;
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  begun.captures = true;
  *id = capture_of(stream).value();
}

// A capture that failed is not the error of the next call, in this thread or in autograd's. The
// hook runs in the latter, before its first launch.
void forget_errors(at::Device device) {
  cudaGetLastError();
  const at::AutoGradMode with_gradients(true);
  const at::Tensor leaf = at::ones({1}, device).set_requires_grad(true), view = leaf.view({1});
  view.register_hook([](const at::Tensor& gradient) {
    cudaGetLastError();
    return gradient;
  });
  view.backward(at::ones({1}, device));
}

// One stream for all graphs: what autograd does belongs to the stream of its forward pass, which
// may be in another graph. A process has one GPU.
c10::cuda::CUDAStream stream_of_captures(at::Device device) {
  static const c10::cuda::CUDAStream stream =
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index());
  DTRAIN_CHECK(stream.device_index() == device.index(), "graphs of two GPUs");
  return stream;
}

}  // namespace

CudaGraph::Memory CudaGraph::new_memory() {
  static std::atomic<Memory> next = kFirst;
  return next++;
}

CudaGraph::CudaGraph(at::Device device, Memory memory, const std::function<void()>& issue)
    : device_(device), memory_(memory) {
  const c10::cuda::CUDAStreamGuard guard(stream_of_captures(device));
  const cudaStream_t stream = guard.current_stream().stream();
  Begun begun;
  std::exception_ptr error;
  try {
    begin(stream, device, memory, begun);
    issue();
  } catch (...) {
    error = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  cudaError_t ended = begun.captures ? cudaStreamEndCapture(stream, &graph) : cudaSuccess;
  if (begun.allocates) allocator::endAllocateToPool(device.index(), pool_of(memory));
  cudaGraphExec_t exec = nullptr;
  if (!error && ended == cudaSuccess) {
    // With the priorities of the streams: what travels between ranks goes first.
    ended = cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagUseNodePriority);
  }
  if (graph) cudaGraphDestroy(graph);
  exec_ = exec;
  if (!error && ended == cudaSuccess) return;
  if (begun.allocates) allocator::releasePool(device.index(), pool_of(memory));
  forget_errors(device);
  if (error) std::rethrow_exception(error);
  C10_CUDA_CHECK(ended);
}

CudaGraph::~CudaGraph() {
  C10_CUDA_CHECK_WARN(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(exec_)));
  try {
    allocator::releasePool(device_.index(), pool_of(memory_));
  } catch (const c10::Error&) {
    // The GPU has failed, and the next operation on it says so: a destructor cannot.
  }
}

void CudaGraph::launch() const {
  const c10::cuda::CUDAGuard guard(device_);
  C10_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(exec_),
                                 c10::cuda::getCurrentCUDAStream(device_.index())));
}

void release_unused_memory(at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  allocator::emptyCache();
}

}  // namespace dtrain::device
