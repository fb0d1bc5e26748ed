#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <fstream>
#include <span>

#include "core/error.h"
#include "device/device.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::device {

// Queues a kernel of one thread on a stream of the current device, which ends after `cycles` cycles
// of the GPU's clock, and returns at once (spin.cu). May be called from any thread.
[[nodiscard]] cudaError_t spin(int64_t cycles, cudaStream_t stream);

namespace {

// LibTorch warns of a driver that is too old, in its own words, once per process.
struct Silent : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

int count_gpus() {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  return c10::cuda::device_count();
}

}  // namespace

int gpu_count() {
  static const int count = [] {
    const int found = count_gpus();
    if (found > 0) load_gpu_operators();
    return found;
  }();
  return count;
}

Driver find_driver() {
  Driver driver{.device_file = has_gpu_file("/dev")};
  if (cudaDriverGetVersion(&driver.cuda) != cudaSuccess) driver.cuda = 0;
  cudaGetLastError();  // clears the error, or the next check would report it
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.07  ..."
  std::ifstream about("/proc/driver/nvidia/version");
  for (std::string word; about >> word && driver.version.empty();) {
    if (word.find('.') != std::string::npos && word[0] >= '0' && word[0] <= '9')
      driver.version = word;
  }
  return driver;
}

// As the CUDA runtime opens it. Never closed.
bool has_driver_library() { return ::dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

void load_gpu_operators() {
  // As if they were linked, and never closed.
  if (::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
    throw DeviceError(str("LibTorch's operators for GPUs cannot be loaded: ", ::dlerror(),
                          " (is LibTorch where it was when dtrain was built?)"));
  }
}

std::string unusable_gpu() { return unusable_gpu(find_driver(), CUDART_VERSION); }

bool works(at::Device device) noexcept {
  if (!device.is_cuda() || count_gpus() == 0) return true;
  if (device.has_index() && cudaSetDevice(device.index()) != cudaSuccess) return false;
  return cudaDeviceSynchronize() == cudaSuccess;
}

void hold(at::Device device, double seconds) {
  if (!device.is_cuda()) return;
  const c10::cuda::CUDAGuard guard(device.has_index() ? device.index()
                                                      : c10::cuda::current_device());
  const at::DeviceIndex index = guard.current_device().index();
  int kilohertz = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, index));
  C10_CUDA_CHECK(spin(static_cast<int64_t>(seconds * 1e3 * kilohertz),
                      c10::cuda::getCurrentCUDAStream(index)));
}

Properties gpu_properties(int index) {
  cudaDeviceProp gpu{};
  char bus_id[32] = "";
  if (cudaGetDeviceProperties(&gpu, index) != cudaSuccess ||
      cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index) != cudaSuccess) {
    throw DeviceError(str("cannot read the properties of GPU ", index, ": ",
                          cudaGetErrorString(cudaGetLastError())));
  }
  const std::string uuid = hex(std::as_bytes(std::span(gpu.uuid.bytes)));
  return {gpu.name, bus_id, uuid, static_cast<int64_t>(gpu.totalGlobalMem),
          gpu.major * 10 + gpu.minor};
}

std::string cuda_runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return str(version / 1000, ".", version % 1000 / 10);
}

}  // namespace dtrain::device
