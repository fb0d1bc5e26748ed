// The part of the CUDA runtime that is about devices and errors.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "cuda/capture.h"
#include "cuda/counts.h"
#include "cuda/faults.h"
#include "cuda/gpus.h"
#include "cuda/schedule.h"
#include "cuda/settings.h"

namespace fake_gpu {
namespace {

// A GeForce RTX 3090, but for what a test asks.
constexpr int kMultiprocessors = 82;
constexpr int kSharedMemory = 48 << 10;
constexpr int kSharedMemoryOptIn = 99 << 10;
constexpr int kKilohertz = 1695000;

struct Description {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr Description kDescriptions[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"}};

Description described(cudaError_t error) {
  for (const Description& one : kDescriptions)
    if (one.error == error) return one;
  return {error, "cudaErrorUnknown", "unknown error"};
}

}  // namespace
}  // namespace fake_gpu

using namespace fake_gpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = visible_gpus();
  if (*count > 0) return cudaSuccess;
  return remember(settings().gpus.empty() ? cudaErrorNoDevice : cudaErrorInsufficientDriver);
}

cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current_gpu();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= visible_gpus()) return remember(cudaErrorInvalidDevice);
  FAKE_GPU_RETURN_IF_FAILED();
  set_current_gpu(gpu);
  use_context(gpu);  // since CUDA 12
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  if (gpu < 0 || gpu >= visible_gpus()) return remember(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "NVIDIA GeForce RTX 3090");
  properties->uuid.bytes[0] = static_cast<char>(settings().gpus[static_cast<size_t>(gpu)] + 1);
  properties->totalGlobalMem = settings().memory;
  properties->major = settings().capability / 10;
  properties->minor = settings().capability % 10;
  properties->multiProcessorCount = kMultiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 1536;
  properties->maxBlocksPerMultiProcessor = 16;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 0xffff;
  properties->sharedMemPerBlock = kSharedMemory;
  properties->sharedMemPerBlockOptin = kSharedMemoryOptIn;
  properties->sharedMemPerMultiprocessor = 100 << 10;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 64 << 10;
  properties->l2CacheSize = 6 << 20;
  properties->textureAlignment = 512;
  properties->unifiedAddressing = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int gpu) {
  if (gpu < 0 || gpu >= visible_gpus()) return remember(cudaErrorInvalidDevice);
  cudaDeviceProp gpu_is{};
  cudaGetDeviceProperties(&gpu_is, gpu);
  switch (attribute) {
    case cudaDevAttrClockRate:
      *value = kKilohertz;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = gpu_is.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = gpu_is.minor;
      break;
    case cudaDevAttrWarpSize:
      *value = gpu_is.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = gpu_is.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = gpu_is.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = gpu_is.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxBlockDimX:
      *value = gpu_is.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      *value = gpu_is.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = gpu_is.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      *value = gpu_is.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = gpu_is.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = gpu_is.maxGridSize[2];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedMemory;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedMemoryOptIn;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = gpu_is.regsPerBlock;
      break;
    case cudaDevAttrL2CacheSize:
      *value = gpu_is.l2CacheSize;
      break;
    default:
      std::fprintf(stderr, "fake GPU: attribute %d of a device is not known\n", attribute);
      std::abort();
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int gpu) {
  if (gpu < 0 || gpu >= visible_gpus()) return remember(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0",
                settings().gpus[static_cast<size_t>(gpu)] + 1);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;  // as between two GeForce cards
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  FAKE_GPU_RETURN_IF_FAILED();
  if (const cudaError_t error = check_host_may_wait_for_gpu(current_gpu()); error != cudaSuccess)
    return remember(error);
  count(Operation::kWait, "cudaDeviceSynchronize");
  finish_gpu(current_gpu());
  return cudaSuccess;
}

// The functions of the driver's library, which is a fake too.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY);
  *function = driver == nullptr ? nullptr : ::dlsym(driver, name);
  if (result != nullptr)
    *result =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return take_last_error(); }

cudaError_t cudaPeekAtLastError() { return last_error(); }

const char* cudaGetErrorString(cudaError_t error) { return described(error).text; }

const char* cudaGetErrorName(cudaError_t error) { return described(error).name; }

}  // extern "C"
