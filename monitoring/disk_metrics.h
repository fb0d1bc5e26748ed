#pragma once

// The dtrain_disk_* series: how full the disk of the run folder is. A separate thread asks, because
// a network file system may take long to answer, and neither the training thread nor a scrape may
// wait for it.

#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "monitoring/series.h"

namespace dtrain::monitoring {

struct DiskSpace {
  double free = 0, size = 0;  // bytes: what an ordinary user may still write, and all of it
};

// Asks the file system of `path`, or of its nearest parent that exists. nullopt: not known.
std::optional<DiskSpace> disk_space(std::filesystem::path path);

class DiskMetrics {
 public:
  // Calls `space` at once and then every `interval` seconds, on its thread.
  DiskMetrics(const SeriesFactory&, std::function<std::optional<DiskSpace>()> space,
              double interval = 10);

 private:
  std::jthread thread_;
};

}  // namespace dtrain::monitoring
