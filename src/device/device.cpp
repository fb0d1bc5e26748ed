#include "device/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/error.h"

namespace dtrain::device {

at::Device choose(const config::Device& options, int local_rank) {
  const int gpus = gpu_count();
  if (options.type == config::DeviceType::kCpu || (options.type == config::DeviceType::kAuto && gpus == 0))
    return at::kCPU;
  if (gpus == 0) {
    throw DeviceError(
        "device.type is cuda, but there is no usable GPU: check `nvidia-smi` (driver 580 or newer for CUDA 13), or use "
        "--device.type cpu");
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(local_rank % gpus)};
}

void use(at::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

Properties properties(at::Device device) {
  if (device.is_cuda()) return gpu_properties(device.index());
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  return {.name = "CPU", .memory_bytes = pages * ::sysconf(_SC_PAGE_SIZE)};
}

MemoryUse memory_use(at::Device device) {
  if (device.is_cuda()) {
    const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index());
    const auto& reserved = stats.reserved_bytes[0];
    return {stats.allocated_bytes[0].current, reserved.current, reserved.peak, stats.num_alloc_retries, stats.num_ooms};
  }
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  resident *= ::sysconf(_SC_PAGE_SIZE);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {.allocated = resident, .reserved = resident, .peak = std::max(resident, int64_t{usage.ru_maxrss} * 1024)};
}

void set_determinism(bool deterministic, bool cudnn_benchmark) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(cudnn_benchmark && !deterministic);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // costs time, and helps only to find bugs
  // LibTorch refuses to call cuBLAS without it.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace dtrain::device
