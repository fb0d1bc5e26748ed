#include "monitoring/gpu_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dtrain::monitoring {
namespace {

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
  settings_ = settings;
}

void GpuWindow::Mean::add(double value, double for_seconds) {
  if (std::isnan(value)) return;
  sum += value * for_seconds;
  seconds += for_seconds;
}

double GpuWindow::Mean::value() const { return seconds > 0 ? sum / seconds : measure::kUnknown; }

void GpuWindow::add(const GpuReading& r, double seconds) {
  const std::lock_guard lock(mutex_);
  sums_.seconds += seconds;
  utilization_.add(r.utilization, seconds);
  power_.add(r.power, seconds);
  sm_clock_.add(r.sm_clock, seconds);
  sums_.temperature = std::fmax(sums_.temperature, r.temperature);
  sums_.highest_sm_clock = r.highest_sm_clock;
  const bool by_power = is_throttled(r, ThrottledBy::kPower);
  // Of the two that a hardware slowdown may be, heat is the common one.
  const bool by_heat =
      is_throttled(r, ThrottledBy::kHeat) || (!by_power && is_throttled(r, ThrottledBy::kEither));
  if (r.throttle_mask) {
    if (std::isnan(sums_.slowed_by_power)) sums_.slowed_by_power = sums_.slowed_by_heat = 0;
    if (by_power) sums_.slowed_by_power += seconds;
    if (by_heat) sums_.slowed_by_heat += seconds;
  }
  if (r.utilization >= kWorking) {
    working_sm_clock_.add(r.sm_clock, seconds);
    if (r.throttle_mask && !by_power && !by_heat)
      full_sm_clock_ = std::fmax(full_sm_clock_, r.sm_clock);
  }
  // The card counts from the load of its driver, and starts again at 0 after a reload.
  if (const double used = std::max(0.0, r.energy - last_energy_);
      !std::isnan(r.energy - last_energy_)) {
    sums_.energy = std::isnan(sums_.energy) ? used : sums_.energy + used;
    sums_.energy_seconds += seconds;
  }
  if (!std::isnan(r.energy)) last_energy_ = r.energy;
}

measure::Values GpuWindow::take() {
  using measure::Quantity;
  const std::lock_guard lock(mutex_);
  const Sums sums = std::exchange(sums_, {});
  const auto share = [&](double seconds) {
    return sums.seconds > 0 ? seconds / sums.seconds : measure::kUnknown;
  };
  return {
      {Quantity::kGpuSeconds, sums.seconds},
      {Quantity::kGpuUtilization, std::exchange(utilization_, {}).value()},
      {Quantity::kGpuPower, std::exchange(power_, {}).value()},
      // Sensors are read every few seconds: one reading may stand for many windows, most of
      // which have none.
      {Quantity::kGpuEnergy, sums.energy / sums.energy_seconds},
      {Quantity::kGpuTemperature, sums.temperature},
      {Quantity::kSmClock, std::exchange(sm_clock_, {}).value()},
      {Quantity::kWorkingSmClock, std::exchange(working_sm_clock_, {}).value()},
      {Quantity::kFullSmClock, full_sm_clock_},
      {Quantity::kHighestSmClock, sums.highest_sm_clock},
      {Quantity::kSlowedByPower, share(sums.slowed_by_power)},
      {Quantity::kSlowedByHeat, share(sums.slowed_by_heat)},
      {Quantity::kPowerLimit, settings_.power_limit.value_or(measure::kUnknown)},
      {Quantity::kDefaultPowerLimit, settings_.default_power_limit.value_or(measure::kUnknown)}};
}

}  // namespace dtrain::monitoring
