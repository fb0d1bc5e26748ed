// What CUDA and NVML say of a GPU.

#include "device/copy_probe.h"
#include "device/device.h"
#include "doctor/collect.h"
#include "monitoring/gpu_reader.h"
#include "os/facts.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

using measure::Quantity;

void ask_nvml(GpuFacts& gpu) {
  const monitoring::OpenedReader opened = monitoring::open_nvml(gpu.bus_id);
  if (!opened.reader) return;
  const monitoring::GpuSettings settings = opened.reader->settings();
  gpu.persistence = settings.persistence;
  gpu.power_limit = settings.power_limit;
  gpu.default_power_limit = settings.default_power_limit;
  const std::optional<monitoring::GpuReading> reading = opened.reader->read();
  if (!reading) return;
  const measure::Values& values = reading->values;
  if (values.knows(Quantity::kGpuTemperature)) gpu.temperature = values[Quantity::kGpuTemperature];
  if (values.knows(Quantity::kGpuMemoryUsed))
    gpu.used_memory = static_cast<int64_t>(values[Quantity::kGpuMemoryUsed]);
  for (const monitoring::ThrottleReason& reason : monitoring::kThrottleReasons) {
    if ((reading->throttle_mask.value_or(0) & reason.bit) != 0)
      gpu.throttled_by.emplace_back(reason.name);
  }
}

}  // namespace

GpuFacts examine_gpu(int index) {
  const device::Properties known = device::gpu_properties(index);
  GpuFacts gpu;
  gpu.name = known.name;
  gpu.uuid = known.uuid;
  gpu.bus_id = known.pci_bus_id;
  gpu.memory = known.memory_bytes;
  ask_nvml(gpu);  // before the copies take memory
  for (int other = 0; other < device::gpu_count(); ++other) {
    if (other == index) continue;
    const device::CopyTrial trial = device::try_peer_copy(index, other);
    gpu.peers.push_back({device::gpu_properties(other).pci_bus_id, str(trial.result), trial.error});
    if (trial.result == device::CopyResult::kHangs)
      return gpu;  // the GPU cannot be used by this process again
  }
  gpu.host_copy_rate = device::host_copy_rate(index);
  gpu.link = os::read_pcie_link(gpu.bus_id);
  return gpu;
}

}  // namespace dtrain::doctor
