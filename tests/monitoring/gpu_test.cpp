#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "monitoring/gpu_metrics.h"
#include "monitoring/http_client.h"
#include "monitoring/prometheus_sink.h"

namespace dtrain::monitoring {
namespace {

using measure::Quantity;
using testing::scrape;
using testing::value_of;

GpuReading reading() {
  GpuReading r;
  r.values = {{Quantity::kGpuUtilization, 0.97},
              {Quantity::kGpuMemoryUsed, 8e9},
              {Quantity::kGpuPower, 342.5},
              {Quantity::kSmClock, 1.695e9},
              {Quantity::kGpuTemperature, 71}};
  r.energy = 1000;
  return r;
}

// Returns the same reading `times` times, then the GPU is lost.
class FakeReader : public GpuReader {
 public:
  FakeReader(GpuReading reading, int times, std::atomic<int>& reads)
      : reading_(reading), times_(times), reads_(reads) {}
  std::string name() const override { return "Fake 3090"; }
  std::string uuid() const override { return "GPU-1234"; }
  std::optional<GpuReading> read() override {
    const int reads = ++reads_;
    reads_.notify_all();
    if (reads > times_) return std::nullopt;
    return reading_;
  }

 private:
  GpuReading reading_;
  int times_;
  std::atomic<int>& reads_;
};

// Until a poller begins this reading; the ones before are then exported.
void wait_for(const std::atomic<int>& reads, int count) {
  for (int seen = reads; seen < count; seen = reads) reads.wait(seen);
}

std::string page(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

// As the thread of a GpuPoller does it.
void update(GpuMetrics& metrics, GpuWindow& window, const GpuReading& r, double seconds) {
  metrics.update(window.add(r, seconds), r.throttle_mask, seconds);
}

// vGPUs and old cards do not tell it: that is not the same as never.
TEST(GpuMetrics, ACardThatDoesNotSayWhatSlowsItHasNoSuchSeries) {
  const auto registry = std::make_shared<prometheus::Registry>();
  std::atomic<int> reads{0};
  const FakeReader reader({}, 0, reads);
  GpuMetrics metrics({registry, {{"rank", "0"}}}, "0000:65:00.0", reader);
  GpuReading r = reading();
  GpuWindow window;
  r.throttle_mask.reset();
  update(metrics, window, r, 2.0);
  EXPECT_EQ(page(*registry).find("dtrain_gpu_throttle_seconds_total"), std::string::npos);
  measure::Values use = window.take();
  EXPECT_TRUE(std::isnan(use[Quantity::kSlowedByPower]));
  EXPECT_TRUE(std::isnan(use[Quantity::kSlowedByHeat]));
  EXPECT_TRUE(std::isnan(use[Quantity::kFullSmClock]));
  r.throttle_mask = 0;
  window.add(r, 2);
  use = window.take();
  EXPECT_EQ(use[Quantity::kSlowedByPower], 0);
  EXPECT_EQ(use[Quantity::kSlowedByHeat], 0);
}

TEST(GpuMetrics, GaugesThrottleSecondsAndEnergy) {
  const auto registry = std::make_shared<prometheus::Registry>();
  std::atomic<int> reads{0};
  const FakeReader reader({}, 0, reads);
  GpuMetrics metrics({registry, {{"rank", "0"}}}, "0000:65:00.0", reader);
  GpuReading r = reading();
  GpuWindow window;
  r.throttle_mask = 0x1 | 0x4 | 0x40;  // idle is not throttling
  update(metrics, window, r, 2.0);
  EXPECT_EQ(value_of(page(*registry), "dtrain_gpu_energy_joules_total"), "0");
  r.throttle_mask = 0x40;
  r.energy = 1600;
  update(metrics, window, r, 3.0);
  const std::string text = page(*registry);
  EXPECT_EQ(value_of(text, "dtrain_gpu_utilization_ratio",
                     "gpu=\"0000:65:00.0\",gpu_uuid=\"GPU-1234\",rank=\"0\""),
            "0.97");
  EXPECT_EQ(value_of(text, "dtrain_gpu_power_watts"), "342.5");
  EXPECT_EQ(value_of(text, "dtrain_gpu_throttle_seconds_total", "reason=\"hw_thermal\""), "5");
  EXPECT_EQ(value_of(text, "dtrain_gpu_throttle_seconds_total", "reason=\"sw_power_cap\""), "2");
  EXPECT_EQ(value_of(text, "dtrain_gpu_throttle_seconds_total", "reason=\"hw_power_brake\""), "0");
  EXPECT_EQ(value_of(text, "dtrain_gpu_energy_joules_total"), "600")
      << "energy used before the run is not counted";
  EXPECT_EQ(value_of(text, "dtrain_gpu_info", "name=\"Fake 3090\""), "1");
  EXPECT_EQ(value_of(text, "dtrain_gpu_memory_total_bytes"), "")
      << "what the card does not report is absent, not 0";
}

TEST(GpuMetrics, ADriverReloadDoesNotReduceTheEnergy) {
  const auto registry = std::make_shared<prometheus::Registry>();
  std::atomic<int> reads{0};
  const FakeReader reader({}, 0, reads);
  GpuMetrics metrics({registry, {}}, "x", reader);
  GpuReading r = reading();
  GpuWindow window;
  for (const double energy : {1000.0, 1100.0, 5.0, 30.0}) {
    r.energy = energy;
    update(metrics, window, r, 1);
  }
  EXPECT_EQ(value_of(page(*registry), "dtrain_gpu_energy_joules_total"), "125");
}

TEST(GpuWindow, ClocksCountWhileKernelsRun) {
  GpuWindow window;
  window.set({.persistence = true, .power_limit = 200, .default_power_limit = 250});
  const auto at = [](double utilization, double clock) {
    return measure::Values{{Quantity::kGpuUtilization, utilization}, {Quantity::kSmClock, clock}};
  };
  window.add({.values = at(1, 2e9), .throttle_mask = 0}, 1);
  window.add({.values = at(0, 2e8)}, 1);
  window.add({.values = at(1, 1e9), .throttle_mask = 0x48}, 2);
  const measure::Values use = window.take();
  EXPECT_DOUBLE_EQ(use[Quantity::kWorkingSmClock], 4e9 / 3);
  EXPECT_DOUBLE_EQ(use[Quantity::kFullSmClock], 2e9);
  EXPECT_DOUBLE_EQ(use[Quantity::kPowerLimit], 200);
  EXPECT_DOUBLE_EQ(use[Quantity::kDefaultPowerLimit], 250);
  EXPECT_TRUE(std::isnan(window.take()[Quantity::kWorkingSmClock]));
  EXPECT_DOUBLE_EQ(window.take()[Quantity::kFullSmClock], 2e9) << "of the whole run";
}

TEST(GpuWindow, MeansAndSumsSinceTheLastCall) {
  GpuWindow window;
  EXPECT_TRUE(std::isnan(window.take()[Quantity::kGpuPower])) << "no reading yet";
  GpuReading r = reading();  // 342.5 W, 71 degrees, 1000 J
  r.values[Quantity::kHighestSmClock] = 2.1e9;
  r.throttle_mask = 0x4;
  window.add(r, 1);
  r.values.set({{Quantity::kGpuPower, 312.5}, {Quantity::kGpuTemperature, 65}});
  r.energy = 1900;
  r.throttle_mask = 0x40;
  window.add(r, 3);
  measure::Values use = window.take();
  EXPECT_EQ(use[Quantity::kGpuSeconds], 4);
  EXPECT_EQ(use[Quantity::kGpuPower], 320);
  EXPECT_EQ(use[Quantity::kGpuTemperature], 71) << "the highest";
  EXPECT_EQ(use[Quantity::kGpuEnergy], 300) << "joules per second, since the first reading";
  EXPECT_EQ(use[Quantity::kHighestSmClock], 2.1e9);
  EXPECT_EQ(use[Quantity::kSlowedByPower], 0.25);
  EXPECT_EQ(use[Quantity::kSlowedByHeat], 0.75);
  r.energy = 2000;
  window.add(r, 1);
  use = window.take();
  EXPECT_EQ(use[Quantity::kGpuEnergy], 100) << "since the last call";
  EXPECT_EQ(use[Quantity::kGpuTemperature], 65);
  r.values[Quantity::kGpuUtilization] = measure::kUnknown;
  r.throttle_mask = 0x8;  // does not say why
  r.energy = 5;           // the driver was loaded again
  window.add(r, 2);
  use = window.take();
  EXPECT_TRUE(std::isnan(use[Quantity::kGpuUtilization]));
  EXPECT_EQ(use[Quantity::kGpuEnergy], 0);
  EXPECT_EQ(use[Quantity::kSlowedByHeat], 1);
}

TEST(GpuPoller, ReadsUntilTheGpuIsLostAndLogsIt) {
  std::atomic<int> reads{0};
  config::Metrics config;
  config.port = 0;
  config.gpu_interval = 0.01;
  Identity id;
  id.job_id = "job";
  id.gpu_pci_bus_id = "0000:65:00.0";
  ::testing::internal::CaptureStderr();
  std::string text;
  {
    const auto sink =
        make_prometheus_sink(config, id, std::make_unique<FakeReader>(reading(), 3, reads));
    wait_for(reads, 4);
    text = scrape(sink->address());
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(value_of(text, "dtrain_gpus"), "1");
  EXPECT_EQ(value_of(text, "dtrain_gpu_temperature_celsius", "gpu=\"0000:65:00.0\""), "71");
  EXPECT_EQ(reads, 4) << "a lost GPU is not read again";
  EXPECT_NE(said.find("the GPU Fake 3090 (GPU-1234) no longer answers"), std::string::npos) << said;
}

// A run that serves no metrics judges its GPU all the same.
TEST(GpuPoller, ReadsWithoutMetrics) {
  std::atomic<int> reads{0};
  GpuPoller poller(std::make_unique<FakeReader>(reading(), 1000, reads), nullptr,
                   /*interval=*/0.01);
  wait_for(reads, 4);
  const measure::Values use = poller.take();
  EXPECT_GT(use[Quantity::kGpuSeconds], 0);
  EXPECT_EQ(use[Quantity::kGpuTemperature], 71);
}

TEST(GpuPoller, EndsAtOnceWhenTheRunEnds) {
  std::atomic<int> reads{0};
  const auto registry = std::make_shared<prometheus::Registry>();
  auto reader = std::make_unique<FakeReader>(reading(), 1000, reads);
  auto metrics = std::make_unique<GpuMetrics>(SeriesFactory(registry, {}), "x", *reader);
  const auto before = std::chrono::steady_clock::now();
  { const GpuPoller poller(std::move(reader), std::move(metrics), /*interval=*/3600); }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace dtrain::monitoring
