// libcuda.so.1: what LibTorch asks of the driver itself.

#include <cuda.h>

#include "cuda/gpus.h"
#include "cuda/stream.h"

namespace {

// A context is the number of its GPU, from 1.
CUcontext context_of(int gpu) {
  return reinterpret_cast<CUcontext>(static_cast<intptr_t>(gpu) + 1);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int* count) {
  *count = fake_gpu::visible_gpus();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= fake_gpu::visible_gpus()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = fake_gpu::has_context(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  fake_gpu::use_context(device);
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const int gpu = fake_gpu::current_gpu();
  *context = fake_gpu::has_context(gpu) ? context_of(gpu) : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr)
    fake_gpu::set_current_gpu(static_cast<int>(reinterpret_cast<intptr_t>(context) - 1));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_SUCCESS ? "no error" : "unknown error";
  return CUDA_SUCCESS;
}

}  // extern "C"
