#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "core/error.h"
#include "core/strings.h"
#include "train/device_query.h"

namespace dtrain::train {

int query_gpu_count() { return c10::cuda::device_count(); }

DeviceInfo query_gpu(int index) {
  cudaDeviceProp properties{};
  char bus_id[32] = "";
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess ||
      cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index) != cudaSuccess) {
    throw DeviceError(str("cannot read the properties of GPU ", index, ": ", cudaGetErrorString(cudaGetLastError())));
  }
  return {properties.name, bus_id, static_cast<int64_t>(properties.totalGlobalMem),
          properties.major * 10 + properties.minor};
}

std::string cuda_runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return str(version / 1000, ".", version % 1000 / 10);
}

}  // namespace dtrain::train
