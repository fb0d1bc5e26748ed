#include "monitoring/disk_metrics.h"

#include <prometheus/gauge.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace dtrain::monitoring {

std::optional<DiskSpace> disk_space(std::filesystem::path path) {
  if (path.empty()) path = ".";
  path = std::filesystem::absolute(path);
  struct statvfs info {};
  while (::statvfs(path.c_str(), &info) != 0) {
    if (errno != ENOENT || path == path.root_path()) return std::nullopt;
    path = path.parent_path();
  }
  const auto block = static_cast<double>(info.f_frsize);
  return DiskSpace{static_cast<double>(info.f_bavail) * block,
                   static_cast<double>(info.f_blocks) * block};
}

DiskMetrics::DiskMetrics(const SeriesFactory& series,
                         std::function<std::optional<DiskSpace>()> space, double interval) {
  prometheus::Gauge* free = &series.gauge("dtrain_disk_free_bytes");
  prometheus::Gauge* size = &series.gauge("dtrain_disk_size_bytes");
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(interval));
  // The series live as long as the registry.
  thread_ = std::jthread([=, space = std::move(space)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    while (!stop.stop_requested()) {
      if (const auto now = space()) {
        free->Set(now->free);
        size->Set(now->size);
      }
      std::unique_lock lock(mutex);
      wake.wait_for(lock, stop, pause, [] { return false; });
    }
  });
}

}  // namespace dtrain::monitoring
