#include "monitoring/gpu_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/log.h"
#include "text/strings.h"

namespace dtrain::monitoring {

GpuMetrics::GpuMetrics(const SeriesFactory& own, const std::string& pci_bus_id,
                       const GpuReader& reader)
    : series_(own.and_labels({{"gpu", pci_bus_id}, {"gpu_uuid", reader.uuid()}})) {
  series_.gauge("dtrain_gpu_info", {{"name", reader.name()}}).Set(1);
}

// A value that the card never reports is absent.
void GpuMetrics::update(const GpuReading& r, double seconds) {
  series_.set_known("dtrain_gpu_utilization_ratio", r.utilization);
  series_.set_known("dtrain_gpu_memory_utilization_ratio", r.memory_utilization);
  series_.set_known("dtrain_gpu_memory_used_bytes", r.memory_used);
  series_.set_known("dtrain_gpu_memory_total_bytes", r.memory_total);
  series_.set_known("dtrain_gpu_power_watts", r.power);
  series_.set_known("dtrain_gpu_sm_clock_hertz", r.sm_clock);
  series_.set_known("dtrain_gpu_memory_clock_hertz", r.memory_clock);
  series_.set_known("dtrain_gpu_temperature_celsius", r.temperature);
  if (r.throttle_mask) add_throttled(*r.throttle_mask, seconds);
  if (std::isnan(r.energy)) return;
  // The card counts from the load of its driver, and starts again at 0 after a reload.
  const double used = std::isnan(last_energy_) ? 0 : std::max(0.0, r.energy - last_energy_);
  series_.counter("dtrain_gpu_energy_joules_total").Increment(used);
  last_energy_ = r.energy;
}

void GpuMetrics::add_throttled(uint64_t mask, double seconds) {
  for (const ThrottleReason& reason : kThrottleReasons) {
    series_.counter("dtrain_gpu_throttle_seconds_total", {{"reason", reason.name}})
        .Increment((mask & reason.bit) != 0 ? seconds : 0);
  }
}

GpuPoller::GpuPoller(std::unique_ptr<GpuReader> reader, std::unique_ptr<GpuMetrics> metrics,
                     double interval)
    : reader_(std::move(reader)),
      metrics_(std::move(metrics)),
      interval_(std::max(interval, 0.01)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void GpuPoller::run(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable_any wake;
  Clock::time_point last = Clock::now();
  window_.set(reader_->settings());
  while (true) {
    const std::optional<GpuReading> reading = reader_->read();
    if (!reading) {
      log::warning(
          str("the GPU ", reader_->name(), " (", reader_->uuid(),
              ") no longer answers NVML, and its readings end. See `dmesg` for an Xid message"));
      return;
    }
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last).count();
    if (metrics_) metrics_->update(*reading, seconds);
    window_.add(*reading, seconds);
    last = now;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, std::chrono::duration<double>(interval_), [] { return false; });
    if (stop.stop_requested()) return;
  }
}

}  // namespace dtrain::monitoring
