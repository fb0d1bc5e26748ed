#include "monitoring/gpu_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/log.h"
#include "core/strings.h"

namespace dtrain::monitoring {

struct GpuMetrics::Series {
  prometheus::Registry& registry;
  std::map<std::string, std::string> labels;
  // Made when the card first reports a value, so that one that it never reports is absent.
  std::map<std::string, prometheus::Gauge*> gauges;
  std::map<uint64_t, prometheus::Counter*> throttle;
  prometheus::Counter* energy = nullptr;
  double last_energy = GpuReading::kUnknown;

  void set(const char* name, const char* help, double value) {
    if (std::isnan(value)) return;
    prometheus::Gauge*& gauge = gauges[name];
    if (gauge == nullptr)
      gauge = &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
    gauge->Set(value);
  }

  void add_throttled(uint64_t mask, double seconds) {
    if (throttle.empty()) {
      auto& family = prometheus::BuildCounter()
                         .Name("dtrain_gpu_throttle_seconds_total")
                         .Help("Time with reduced clocks, by reason")
                         .Register(registry);
      for (const ThrottleReason& reason : kThrottleReasons) {
        auto with_reason = labels;
        with_reason["reason"] = reason.name;
        throttle[reason.bit] = &family.Add(with_reason);
      }
    }
    for (const auto& [bit, counter] : throttle) {
      if ((mask & bit) != 0) counter->Increment(seconds);
    }
  }
};

GpuMetrics::GpuMetrics(prometheus::Registry& registry, std::map<std::string, std::string> labels,
                       const std::string& pci_bus_id, const GpuReader& reader)
    : series_(new Series{registry, std::move(labels), {}, {}}) {
  auto& own = series_->labels;
  own["gpu"] = pci_bus_id;
  own["gpu_uuid"] = reader.uuid();
  auto info = own;
  info["name"] = reader.name();
  prometheus::BuildGauge()
      .Name("dtrain_gpu_info")
      .Help("The GPU of this rank")
      .Register(registry)
      .Add(info)
      .Set(1);
}

GpuMetrics::~GpuMetrics() = default;

void GpuMetrics::update(const GpuReading& r, double seconds) {
  Series& s = *series_;
  s.set("dtrain_gpu_utilization_ratio", "Share of time with a kernel running on the GPU",
        r.utilization);
  s.set("dtrain_gpu_memory_utilization_ratio",
        "Share of time with GPU memory being read or written", r.memory_utilization);
  s.set("dtrain_gpu_memory_used_bytes", "GPU memory in use by all processes", r.memory_used);
  s.set("dtrain_gpu_memory_total_bytes", "GPU memory", r.memory_total);
  s.set("dtrain_gpu_power_watts", "Power drawn by the GPU", r.power);
  s.set("dtrain_gpu_sm_clock_hertz", "Clock of the multiprocessors", r.sm_clock);
  s.set("dtrain_gpu_memory_clock_hertz", "Clock of the GPU memory", r.memory_clock);
  s.set("dtrain_gpu_temperature_celsius", "Temperature of the GPU", r.temperature);
  if (r.throttle_mask) s.add_throttled(*r.throttle_mask, seconds);
  if (!std::isnan(r.energy)) {
    if (s.energy == nullptr) {
      s.energy = &prometheus::BuildCounter()
                      .Name("dtrain_gpu_energy_joules_total")
                      .Help("Energy used by the GPU since this run began")
                      .Register(s.registry)
                      .Add(s.labels);
    }
    // The card counts from the load of its driver, and starts again at 0 after a reload.
    if (!std::isnan(s.last_energy)) s.energy->Increment(std::max(0.0, r.energy - s.last_energy));
    s.last_energy = r.energy;
  }
}

GpuPoller::GpuPoller(std::unique_ptr<GpuReader> reader, std::unique_ptr<GpuMetrics> metrics,
                     double interval)
    : reader_(std::move(reader)),
      metrics_(std::move(metrics)),
      interval_(std::max(interval, 0.01)),
      thread_([this] { run(); }) {}

GpuPoller::~GpuPoller() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void GpuPoller::run() {
  using Clock = std::chrono::steady_clock;
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
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, std::chrono::duration<double>(interval_), [this] { return stop_; }))
      return;
  }
}

}  // namespace dtrain::monitoring
