#pragma once

// The dtrain_gpu_* series of one GPU. A separate thread keeps them up to date: calls of NVML take
// milliseconds and may hang when a driver fails, so that neither the training thread nor a scrape
// may make them.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "monitoring/gpu_reader.h"
#include "monitoring/gpu_window.h"
#include "monitoring/series.h"

namespace dtrain::monitoring {

// Thread-safety: update() runs in one thread at a time; scrapes may come at any time.
class GpuMetrics {
 public:
  // `own`: those with the labels of the process; the GPU's have `gpu` (the PCI bus id) and
  // `gpu_uuid` too.
  GpuMetrics(const SeriesFactory& own, const std::string& pci_bus_id, const GpuReader&);
  // Stores a reading that stands for the `seconds` before it.
  void update(const GpuReading&, double seconds);

 private:
  void add_throttled(uint64_t mask, double seconds);

  SeriesFactory series_;
  double last_energy_ = GpuReading::kUnknown;  // joules, as the card counts them
};

// Reads at once and then every `interval` seconds, until it is destroyed or the GPU is lost, which
// it logs. The destructor waits for a reading that is under way. Without metrics (null) the
// readings only add up for take().
class GpuPoller {
 public:
  GpuPoller(std::unique_ptr<GpuReader>, std::unique_ptr<GpuMetrics>, double interval);
  measure::Values take() { return window_.take(); }  // since the last call

 private:
  void run(const std::stop_token&);

  std::unique_ptr<GpuReader> reader_;
  std::unique_ptr<GpuMetrics> metrics_;
  double interval_;
  GpuWindow window_;
  std::jthread thread_;  // last: joined before the rest goes
};

}  // namespace dtrain::monitoring
