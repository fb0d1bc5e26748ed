#pragma once

// The dtrain_gpu_* series of one GPU. A separate thread keeps them up to date: calls of NVML take
// milliseconds and may hang when a driver fails, so that neither the training thread nor a scrape
// may make them.

#include <cstdint>
#include <memory>
#include <optional>
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
  // Stores what GpuWindow::add() said of the `seconds` before a reading.
  void update(const measure::Values&, std::optional<uint64_t> throttle_mask, double seconds);

 private:
  SeriesFactory series_;
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
