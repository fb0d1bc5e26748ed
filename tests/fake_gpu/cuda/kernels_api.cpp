// The part of the CUDA runtime that is about kernels: how code that nvcc made registers and
// launches them. They are counted, and not run.

#include <cuda_runtime_api.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/faults.h"
#include "cuda/stream.h"

namespace fake_gpu {
namespace {

struct Names {
  std::mutex mutex;
  std::unordered_map<const void*, const char*> by_function;
};

Names& names() {
  static auto* names = new Names;  // used until the process has ended
  return *names;
}

const char* name_of(const void* function) {
  const std::lock_guard lock(names().mutex);
  const auto found = names().by_function.find(function);
  return found == names().by_function.end() ? "a kernel that is not registered" : found->second;
}

struct Configuration {
  dim3 grid, block;
  size_t shared_memory = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

}  // namespace
}  // namespace fake_gpu

using namespace fake_gpu;

extern "C" {

void** __cudaRegisterFatBinary(void* binary) { return new void*(binary); }

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) { delete handle; }

char __cudaInitModule(void**) { return 1; }

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  const std::lock_guard lock(names().mutex);
  names().by_function[function] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_memory,
                                     CUstream_st* stream) {
  configurations.push_back({grid, block, shared_memory, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_memory,
                                       void* stream) {
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_memory = top.shared_memory;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return launch(stream, name_of(kernel));
}

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t,
                             cudaStream_t stream) {
  return launch(stream, name_of(function));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function,
                                void**) {
  return launch(configuration->stream, name_of(function));
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3, dim3, void**, size_t,
                                        cudaStream_t stream) {
  return launch(stream, name_of(function));
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 86;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared_memory) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_memory, 0);
}

cudaError_t cudaGetSymbolAddress(void** address, const void*) {
  static char zeros[1 << 16];
  *address = zeros;
  return cudaSuccess;
}

}  // extern "C"
