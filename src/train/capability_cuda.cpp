#include <cuda_runtime_api.h>

#include "core/error.h"
#include "core/strings.h"
#include "train/precision.h"

namespace dtrain::train {

int compute_capability(at::Device device) {
  if (!device.is_cuda()) return 0;
  const int index = device.has_index() ? device.index() : 0;
  int major = 0, minor = 0;
  cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
  if (status != cudaSuccess) {
    throw DeviceError(str("cannot ask GPU ", index, " for its compute capability: ", cudaGetErrorString(status),
                          ". See whether nvidia-smi lists it."));
  }
  return 10 * major + minor;
}

}  // namespace dtrain::train
