#include "monitoring/gpu_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include <algorithm>
#include <chrono>
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
void GpuMetrics::update(const measure::Values& values, std::optional<uint64_t> throttle_mask,
                        double seconds) {
  series_.record(values, seconds, [](const measure::QuantityRow& row) {
    return row.scope == measure::QuantityScope::kSensor;
  });
  if (!throttle_mask) return;
  for (const ThrottleReason& reason : kThrottleReasons) {
    series_.counter("dtrain_gpu_throttle_seconds_total", {{"reason", reason.name}})
        .Increment((*throttle_mask & reason.bit) != 0 ? seconds : 0);
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
    const measure::Values values = window_.add(*reading, seconds);
    if (metrics_) metrics_->update(values, reading->throttle_mask, seconds);
    last = now;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, std::chrono::duration<double>(interval_), [] { return false; });
    if (stop.stop_requested()) return;
  }
}

}  // namespace dtrain::monitoring
