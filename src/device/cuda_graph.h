#pragma once

// Work of a GPU that is recorded once and launched many times: a CUDA graph. It is launched with
// the addresses and the arguments that it was recorded with; what these addresses hold may differ.
//
// Thread-safety: none. While one records, other threads may use the GPU, but not its streams.

#include <torch/types.h>

#include <cstdint>
#include <functional>

namespace dtrain::device {

class CudaGraph {
 public:
  // Graphs of one memory are launched one after the other, and use the same addresses for what they
  // allocate: a tensor that is freed leaves its address to tensors that are allocated later. A
  // graph may use what an earlier one has allocated, if that was not freed before this one was
  // recorded. Such graphs (those of a micro-step) are launched in the order of their recording,
  // with no other graph of the memory between them. After them nothing that they have allocated may
  // be used, by other graphs or by the host. The number is that of the memory.
  using Memory = uint64_t;
  static Memory new_memory();

  // Calls `issue` with a stream of its own as the current one, and records all that is queued to it
  // and to the streams that wait for it. Nothing of that is done. Before `issue` returns its stream
  // must wait for the others. c10::Error, and nothing is recorded, if `issue` throws or does what
  // cannot be recorded: wait for the device, or draw from LibTorch's random generator.
  CudaGraph(at::Device, Memory, const std::function<void()>& issue);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() const;  // queues the work to the current stream

 private:
  at::Device device_;
  Memory memory_;
  void* exec_ = nullptr;  // a cudaGraphExec_t
};

// Gives the memory that LibTorch keeps and does not use back to the GPU. Waits for the device.
void release_unused_memory(at::Device);

}  // namespace dtrain::device
