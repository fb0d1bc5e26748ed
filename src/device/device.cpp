#include "device/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::device {

at::Device choose(const config::Device& options, int local_rank) {
  const int gpus = gpu_count();
  if (options.type == config::DeviceType::kCpu ||
      (options.type == config::DeviceType::kAuto && gpus == 0))
    return at::kCPU;
  if (gpus == 0) {
    const std::string why = unusable_gpu();
    throw DeviceError(str(
        "device.type is cuda, but ",
        why.empty() ? "there is no usable GPU: check `nvidia-smi` (driver 580 or newer for CUDA 13)"
                    : why,
        "; or use --device.type cpu"));
  }
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank % gpus));
  check_capability(properties(device));
  return device;
}

std::string unusable_gpu(const Driver& driver, int needed) {
  if (!driver.device_file) return "";
  const auto version = [](int cuda) { return str(cuda / 1000, ".", cuda % 1000 / 10); };
  if (driver.cuda == 0) {
    return "there is a GPU, but the library of its driver (libcuda.so.1) is missing: a container "
           "needs NVIDIA's runtime (docker run --gpus all)";
  }
  if (driver.cuda / 1000 < needed / 1000) {  // within a major version any driver will do
    return str("there is a GPU, but its driver", driver.version.empty() ? "" : " " + driver.version,
               " is too old: it supports CUDA ", version(driver.cuda), ", and dtrain needs ",
               version(needed), " (driver 580 or newer)");
  }
  return "there is a GPU, but CUDA finds none: check `nvidia-smi` and CUDA_VISIBLE_DEVICES";
}

bool has_gpu_file(const std::filesystem::path& folder) {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kGpu = "nvidia";  // beside nvidiactl, nvidia-uvm, ...
    const bool numbered = name.starts_with(kGpu) && name.size() > kGpu.size() &&
                          name.find_first_not_of("0123456789", kGpu.size()) == std::string::npos;
    if (numbered || name == "dxg") return true;
  }
  return false;
}

void check_capability(const Properties& gpu) {
  // CUDA 13 compiles for no older one, and LibTorch has no code for one
  constexpr int kOldest = 75;
  if (gpu.capability >= kOldest) return;
  throw DeviceError(str("the ", gpu.name, " has compute capability ", gpu.capability / 10, ".",
                        gpu.capability % 10, ", and dtrain needs ", kOldest / 10, ".", kOldest % 10,
                        " or newer: hide it with CUDA_VISIBLE_DEVICES, or use --device.type cpu"));
}

void use(at::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

Properties properties(at::Device device) {
  if (device.is_cuda()) return gpu_properties(device.index());
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  return {.name = "CPU", .memory_bytes = pages * ::sysconf(_SC_PAGE_SIZE)};
}

namespace {

// Not ru_maxrss of getrusage(), in which a process begins with what its parent had when it
// started it.
int64_t peak_resident_bytes() {
  constexpr std::string_view kName = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kName))
      return std::strtoll(line.c_str() + kName.size(), nullptr, 10) * 1024;
  }
  return 0;
}

// Before the first tensor on a GPU, LibTorch's allocator refuses to say what it has.
bool has_allocated() { return at::getDeviceAllocator(at::kCUDA)->initialized(); }

}  // namespace

MemoryUse memory_use(at::Device device) {
  if (device.is_cuda()) {
    if (!has_allocated()) return {};
    const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index());
    const auto& reserved = stats.reserved_bytes[0];
    return {stats.allocated_bytes[0].current, reserved.current, reserved.peak,
            stats.num_alloc_retries, stats.num_ooms};
  }
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  resident *= ::sysconf(_SC_PAGE_SIZE);
  return {.allocated = resident,
          .reserved = resident,
          .peak = std::max(resident, peak_resident_bytes())};
}

void give_back_memory(at::Device device) {
  if (device.is_cuda()) at::getDeviceAllocator(at::kCUDA)->emptyCache();
}

void forget_peak(at::Device device) {
  if (device.is_cuda() && has_allocated())
    at::getDeviceAllocator(at::kCUDA)->resetPeakStats(device.index());
}

void set_determinism(bool deterministic, bool cudnn_benchmark) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(cudnn_benchmark && !deterministic);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  // Costs time, and helps only to find bugs
  context.setDeterministicFillUninitializedMemory(false);
  // LibTorch refuses to call cuBLAS without it.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace dtrain::device
