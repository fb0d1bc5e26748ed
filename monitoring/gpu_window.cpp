#include "monitoring/gpu_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dtrain::monitoring {
namespace {

// NVML's bits of kThrottleReasons.
constexpr uint64_t kByPower = 0x4 | 0x80, kByHeat = 0x20 | 0x40, kByEither = 0x8;

}  // namespace

void GpuWindow::Mean::add(double value, double for_seconds) {
  if (std::isnan(value)) return;
  sum += value * for_seconds;
  seconds += for_seconds;
}

double GpuWindow::Mean::value() const { return seconds > 0 ? sum / seconds : GpuUse::kUnknown; }

void GpuWindow::add(const GpuReading& r, double seconds) {
  const std::lock_guard lock(mutex_);
  use_.seconds += seconds;
  utilization_.add(r.utilization, seconds);
  power_.add(r.power, seconds);
  sm_clock_.add(r.sm_clock, seconds);
  use_.temperature = std::fmax(use_.temperature, r.temperature);
  use_.highest_sm_clock = r.highest_sm_clock;
  // A hardware slowdown alone does not say which of the two it is: heat is the common one.
  if ((r.throttle_mask & kByPower) != 0) use_.slowed_by_power += seconds;
  if ((r.throttle_mask & kByHeat) != 0 || (r.throttle_mask & (kByEither | kByPower)) == kByEither) {
    use_.slowed_by_heat += seconds;
  }
  // The card counts from the load of its driver, and starts again at 0 after a reload.
  if (const double used = std::max(0.0, r.energy - last_energy_); !std::isnan(r.energy - last_energy_)) {
    use_.energy = std::isnan(use_.energy) ? used : use_.energy + used;
  }
  if (!std::isnan(r.energy)) last_energy_ = r.energy;
}

GpuUse GpuWindow::take() {
  const std::lock_guard lock(mutex_);
  GpuUse use = std::exchange(use_, {});
  use.utilization = std::exchange(utilization_, {}).value();
  use.power = std::exchange(power_, {}).value();
  use.sm_clock = std::exchange(sm_clock_, {}).value();
  return use;
}

}  // namespace dtrain::monitoring
