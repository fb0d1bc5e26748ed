#pragma once

// The sensors of one GPU. The interface has NVML behind it in a run, and a list of readings in
// the tests.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "measure/rank_sample.h"

namespace dtrain::monitoring {

// What this card reports.
struct GpuReading {
  measure::Values values = {};                 // those of sensors, as they are now
  double energy = measure::kUnknown;           // joules since the driver was loaded
  std::optional<uint64_t> throttle_mask = {};  // NVML's clocks event reasons
};

// What does not change while a GPU runs.
struct GpuSettings {
  std::optional<bool> persistence;  // the driver stays loaded while nothing uses the GPU
  // watts: in force now; of the card as it was delivered
  std::optional<double> power_limit, default_power_limit;
};

class GpuReader {
 public:
  virtual ~GpuReader() = default;
  virtual std::string name() const = 0;          // "NVIDIA GeForce RTX 3090"
  virtual std::string uuid() const = 0;          // "GPU-...", as dcgm-exporter labels it
  virtual std::optional<GpuReading> read() = 0;  // nullopt: the GPU is lost
  virtual GpuSettings settings() { return {}; }  // those that the card reports
};

struct OpenedReader {
  std::unique_ptr<GpuReader> reader;  // null: see `problem`
  std::string problem;
};
// Loads NVML at run time and finds the GPU by its PCI bus id, because NVML and CUDA number GPUs
// differently when CUDA_VISIBLE_DEVICES is set.
OpenedReader open_nvml(const std::string& pci_bus_id,
                       const std::string& library = "libnvidia-ml.so.1");

// NVML's bits and their label values. `idle` and the application clocks are not throttling, and are
// left out.
enum class ThrottledBy { kPower, kHeat, kEither };  // a hardware slowdown alone does not say which
struct ThrottleReason {
  uint64_t bit;
  const char* name;
  ThrottledBy by;
};
inline constexpr ThrottleReason kThrottleReasons[] = {
    {0x4, "sw_power_cap", ThrottledBy::kPower},
    {0x8, "hw_slowdown", ThrottledBy::kEither},
    {0x20, "sw_thermal", ThrottledBy::kHeat},
    {0x40, "hw_thermal", ThrottledBy::kHeat},
    {0x80, "hw_power_brake", ThrottledBy::kPower}};

}  // namespace dtrain::monitoring
