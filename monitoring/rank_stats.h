#pragma once

// What rank 0 knows of each rank. The first struct does not change during a run; the second is gathered at logging
// steps. NaN means unknown or, for a GPU's values, that the rank has none.

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "monitoring/step_stats.h"

namespace dtrain::monitoring {

struct RankFacts {
  std::string node, device;
  int cores = 0, loader_threads = 0;
};

struct RankStats {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int rank = 0;
  double step_seconds = kUnknown;               // wall time, mean per step since the last logging step
  std::array<double, kPhases> phase_seconds{};  // the same
  double queue = kUnknown;                      // mean share of the read-ahead that is ready, 0 to 1
  double run_delay_seconds = kUnknown;          // per step: ready to run, but no core was free
  double memory_used = kUnknown;                // bytes of the device; on the CPU the resident set
  double gpu_utilization = kUnknown;            // 0 to 1
  double power = kUnknown;                      // watts
  double temperature = kUnknown;                // degrees Celsius
  double sm_clock = kUnknown;                   // hertz
};

}  // namespace dtrain::monitoring
