#include <dlfcn.h>
#include <nvml.h>

#include "monitoring/gpu_reader.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using measure::Quantity;

// The functions that are used, looked up by name: a machine without a driver has no such library,
// and an old driver lacks some of them.
struct Nvml {
  decltype(&nvmlInit_v2) init = nullptr;
  decltype(&nvmlShutdown) shutdown = nullptr;
  decltype(&nvmlErrorString) error_string = nullptr;
  decltype(&nvmlDeviceGetHandleByPciBusId_v2) by_pci_bus_id = nullptr;
  decltype(&nvmlDeviceGetName) name = nullptr;
  decltype(&nvmlDeviceGetUUID) uuid = nullptr;
  decltype(&nvmlDeviceGetUtilizationRates) utilization = nullptr;
  decltype(&nvmlDeviceGetMemoryInfo) memory = nullptr;
  decltype(&nvmlDeviceGetPowerUsage) power = nullptr;
  decltype(&nvmlDeviceGetTotalEnergyConsumption) energy = nullptr;
  decltype(&nvmlDeviceGetClockInfo) clock = nullptr;
  decltype(&nvmlDeviceGetMaxClockInfo) highest_clock = nullptr;
  // Deprecated, but every driver has it.
  nvmlReturn_t (*temperature)(nvmlDevice_t, nvmlTemperatureSensors_t, unsigned int*) = nullptr;
  decltype(&nvmlDeviceGetCurrentClocksEventReasons) throttle = nullptr;
  decltype(&nvmlDeviceGetPersistenceMode) persistence = nullptr;
  decltype(&nvmlDeviceGetEnforcedPowerLimit) power_limit = nullptr;
  decltype(&nvmlDeviceGetPowerManagementDefaultLimit) default_power_limit = nullptr;
};

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

Nvml find_all(void* library) {
  Nvml n;
  find(library, n.init, "nvmlInit_v2");
  find(library, n.shutdown, "nvmlShutdown");
  find(library, n.error_string, "nvmlErrorString");
  find(library, n.by_pci_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  find(library, n.name, "nvmlDeviceGetName");
  find(library, n.uuid, "nvmlDeviceGetUUID");
  find(library, n.utilization, "nvmlDeviceGetUtilizationRates");
  find(library, n.memory, "nvmlDeviceGetMemoryInfo");
  find(library, n.power, "nvmlDeviceGetPowerUsage");
  find(library, n.energy, "nvmlDeviceGetTotalEnergyConsumption");
  find(library, n.clock, "nvmlDeviceGetClockInfo");
  find(library, n.highest_clock, "nvmlDeviceGetMaxClockInfo");
  find(library, n.temperature, "nvmlDeviceGetTemperature");
  find(library, n.throttle, "nvmlDeviceGetCurrentClocksEventReasons");
  // Before driver 535
  if (n.throttle == nullptr) find(library, n.throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(library, n.persistence, "nvmlDeviceGetPersistenceMode");
  find(library, n.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(library, n.default_power_limit, "nvmlDeviceGetPowerManagementDefaultLimit");
  return n;
}

class NvmlReader : public GpuReader {
 public:
  NvmlReader(const Nvml& nvml, nvmlDevice_t device) : nvml_(nvml), device_(device) {
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    if (nvml_.name != nullptr && nvml_.name(device_, text, sizeof text) == NVML_SUCCESS)
      name_ = text;
    if (nvml_.uuid != nullptr && nvml_.uuid(device_, text, sizeof text) == NVML_SUCCESS)
      uuid_ = text;
  }
  ~NvmlReader() override { nvml_.shutdown(); }

  std::string name() const override { return name_; }
  std::string uuid() const override { return uuid_; }

  std::optional<GpuReading> read() override {
    GpuReading r;
    measure::Values& values = r.values;
    lost_ = false;
    if (nvmlUtilization_t u{}; ok(nvml_.utilization, &u)) {
      values[Quantity::kGpuUtilization] = u.gpu / 100.0;
      values[Quantity::kGpuMemoryUtilization] = u.memory / 100.0;
    }
    if (nvmlMemory_t m{}; ok(nvml_.memory, &m)) {
      values[Quantity::kGpuMemoryUsed] = static_cast<double>(m.used);
      values[Quantity::kGpuMemory] = static_cast<double>(m.total);
    }
    if (unsigned mw = 0; ok(nvml_.power, &mw)) values[Quantity::kGpuPower] = mw * 1e-3;
    if (unsigned long long mj = 0; ok(nvml_.energy, &mj)) r.energy = static_cast<double>(mj) * 1e-3;
    if (unsigned mhz = 0; ok(nvml_.clock, NVML_CLOCK_SM, &mhz))
      values[Quantity::kSmClock] = mhz * 1e6;
    if (unsigned mhz = 0; ok(nvml_.clock, NVML_CLOCK_MEM, &mhz))
      values[Quantity::kGpuMemoryClock] = mhz * 1e6;
    if (unsigned mhz = 0; ok(nvml_.highest_clock, NVML_CLOCK_SM, &mhz))
      values[Quantity::kHighestSmClock] = mhz * 1e6;
    if (unsigned celsius = 0; ok(nvml_.temperature, NVML_TEMPERATURE_GPU, &celsius))
      values[Quantity::kGpuTemperature] = celsius;
    if (unsigned long long mask = 0; ok(nvml_.throttle, &mask)) r.throttle_mask = mask;
    if (lost_) return std::nullopt;
    return r;
  }

  GpuSettings settings() override {
    GpuSettings s;
    lost_ = false;
    if (nvmlEnableState_t on{}; ok(nvml_.persistence, &on))
      s.persistence = on == NVML_FEATURE_ENABLED;
    if (unsigned mw = 0; ok(nvml_.power_limit, &mw)) s.power_limit = mw * 1e-3;
    if (unsigned mw = 0; ok(nvml_.default_power_limit, &mw)) s.default_power_limit = mw * 1e-3;
    return s;
  }

 private:
  // False: the library lacks the function, or the card does not report the value, as is common on
  // consumer cards.
  template <typename Function, typename... Arguments>
  bool ok(Function function, Arguments... arguments) {
    if (function == nullptr || lost_) return false;
    const nvmlReturn_t code = function(device_, arguments...);
    lost_ = code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_UNINITIALIZED;
    return code == NVML_SUCCESS;
  }

  Nvml nvml_;
  nvmlDevice_t device_;
  std::string name_ = "GPU", uuid_;
  bool lost_ = false;
};

}  // namespace

OpenedReader open_nvml(const std::string& pci_bus_id, const std::string& library) {
  // Never closed, because the driver keeps threads and exit handlers in it.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, ::dlerror()};
  const Nvml nvml = find_all(handle);
  if (nvml.init == nullptr || nvml.shutdown == nullptr || nvml.by_pci_bus_id == nullptr) {
    return {nullptr, library + " is not NVML, or is older than 2013"};
  }
  const auto text = [&](nvmlReturn_t code) {
    return nvml.error_string != nullptr ? std::string(nvml.error_string(code))
                                        : str("NVML error ", code);
  };
  if (const nvmlReturn_t code = nvml.init(); code != NVML_SUCCESS)
    return {nullptr, "nvmlInit: " + text(code)};
  nvmlDevice_t device{};
  if (const nvmlReturn_t code = nvml.by_pci_bus_id(pci_bus_id.c_str(), &device);
      code != NVML_SUCCESS) {
    nvml.shutdown();
    return {nullptr, "GPU " + pci_bus_id + ": " + text(code)};
  }
  return {std::make_unique<NvmlReader>(nvml, device), ""};
}

}  // namespace dtrain::monitoring
