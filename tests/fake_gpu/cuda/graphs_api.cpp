// The part of the CUDA runtime that is about captures and graphs.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "cuda/capture.h"
#include "cuda/faults.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

using namespace fake_gpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FAKE_GPU_RETURN_IF_FAILED();
  return remember(begin_capture(stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FAKE_GPU_RETURN_IF_FAILED();
  return remember(end_capture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return remember(find_capture(stream, status, nullptr, nullptr));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  const cudaError_t error = find_capture(stream, status, id, graph);
  const bool wants_nodes = dependencies != nullptr || edges != nullptr || count != nullptr;
  if (wants_nodes && error == cudaSuccess && *status == cudaStreamCaptureStatusActive) {
    std::fprintf(stderr, "fake GPU: what a captured stream depends on is not known\n");
    std::abort();
  }
  return remember(error);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = exchange_mode(*mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  const std::vector<CUgraphNode_st*> all = work_of(*graph);
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < all.size() ? all[i] : nullptr;
  }
  *count = nodes == nullptr ? all.size() : std::min(*count, all.size());
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  FAKE_GPU_RETURN_IF_FAILED();
  *exec = new CUgraphExec_st{*graph};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;  // its work is done later
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = check_not_captured(stream); error != cudaSuccess)
    return remember(error);
  const std::lock_guard lock(exec->mutex);
  return launch_step(stream, "graph", [exec](const std::shared_ptr<Queue>& queue) {
    return exec->last = launch(exec->graph, queue, exec->last);
  });
}

}  // extern "C"
