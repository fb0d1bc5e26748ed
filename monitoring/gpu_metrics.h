#pragma once

// The dtrain_gpu_* series of one GPU, kept up to date by a thread of its own: NVML calls take milliseconds and may hang
// with a sick driver, so neither the training thread nor a scrape makes them.

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "monitoring/gpu_reader.h"

namespace prometheus {
class Registry;
}

namespace dtrain::monitoring {

class GpuMetrics {
 public:
  // `labels` are those of the process; `gpu` (the PCI bus id) and `gpu_uuid` come on top.
  GpuMetrics(prometheus::Registry&, std::map<std::string, std::string> labels, const std::string& pci_bus_id,
             const GpuReader&);
  ~GpuMetrics();
  // A reading that stands for the `seconds` before it. Not while a poller runs.
  void update(const GpuReading&, double seconds);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

// Reads at once and then every `interval` seconds, until it is destroyed or the GPU is lost (a warning says so).
class GpuPoller {
 public:
  GpuPoller(std::unique_ptr<GpuReader>, std::unique_ptr<GpuMetrics>, double interval);
  ~GpuPoller();

 private:
  void run();

  std::unique_ptr<GpuReader> reader_;
  std::unique_ptr<GpuMetrics> metrics_;
  double interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dtrain::monitoring
