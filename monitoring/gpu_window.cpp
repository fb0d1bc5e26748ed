#include "monitoring/gpu_window.h"

#include <algorithm>
#include <cmath>

namespace dtrain::monitoring {
namespace {

using measure::kUnknown;
using measure::Quantity;
using measure::Values;

bool is_throttled(const GpuReading& reading, ThrottledBy by) {
  return std::ranges::any_of(kThrottleReasons, [&](const ThrottleReason& reason) {
    return reason.by == by && (reading.throttle_mask.value_or(0) & reason.bit) != 0;
  });
}

// A GPU with less to do may lower its clock for that reason.
constexpr double kWorking = 0.5;

}  // namespace

void GpuWindow::set(const GpuSettings& settings) {
  const std::lock_guard lock(mutex_);
  of_run_.set({{Quantity::kPowerLimit, settings.power_limit.value_or(kUnknown)},
               {Quantity::kDefaultPowerLimit, settings.default_power_limit.value_or(kUnknown)}});
}

Values GpuWindow::add(const GpuReading& r, double seconds) {
  const std::lock_guard lock(mutex_);
  Values values = r.values;
  values[Quantity::kGpuSeconds] = seconds;
  const bool by_power = is_throttled(r, ThrottledBy::kPower);
  // Of the two that a hardware slowdown may be, heat is the common one.
  const bool by_heat =
      is_throttled(r, ThrottledBy::kHeat) || (!by_power && is_throttled(r, ThrottledBy::kEither));
  if (r.throttle_mask)
    values.set({{Quantity::kSlowedByPower, by_power}, {Quantity::kSlowedByHeat, by_heat}});
  if (values[Quantity::kGpuUtilization] >= kWorking) {
    const double clock = values[Quantity::kWorkingSmClock] = values[Quantity::kSmClock];
    double& full = of_run_[Quantity::kFullSmClock];
    if (r.throttle_mask && !by_power && !by_heat) full = std::fmax(full, clock);
  }
  // The card counts from the load of its driver, and starts again at 0 after a reload.
  const double used = r.energy - last_energy_;
  if (!std::isnan(used)) values[Quantity::kGpuEnergy] = std::max(0.0, used) / seconds;
  total_.add({.seconds = seconds, .steps = seconds, .values = values});
  if (std::isnan(r.energy)) return values;
  last_energy_ = r.energy;
  values[Quantity::kGpuEnergy] = values.or_zero(Quantity::kGpuEnergy);  // counted from here on
  return values;
}

Values GpuWindow::take() {
  const std::lock_guard lock(mutex_);
  Values values = total_.per_step();
  values.set(of_run_);
  values[Quantity::kGpuSeconds] = total_.sum(Quantity::kGpuSeconds);  // weighs the means
  total_ = {};
  return values;
}

}  // namespace dtrain::monitoring
