#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <span>

#include "core/error.h"
#include "core/number_text.h"
#include "core/strings.h"
#include "device/device.h"

namespace dtrain::device {

int gpu_count() { return c10::cuda::device_count(); }

Properties gpu_properties(int index) {
  cudaDeviceProp gpu{};
  char bus_id[32] = "";
  if (cudaGetDeviceProperties(&gpu, index) != cudaSuccess ||
      cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index) != cudaSuccess) {
    throw DeviceError(str("cannot read the properties of GPU ", index, ": ", cudaGetErrorString(cudaGetLastError())));
  }
  const std::string uuid = hex(std::as_bytes(std::span(gpu.uuid.bytes)));
  return {gpu.name, bus_id, uuid, static_cast<int64_t>(gpu.totalGlobalMem), gpu.major * 10 + gpu.minor};
}

std::string cuda_runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return str(version / 1000, ".", version % 1000 / 10);
}

}  // namespace dtrain::device
