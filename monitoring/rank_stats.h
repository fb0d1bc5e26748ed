#pragma once

// What rank 0 knows of each rank. The first struct does not change during a run; the second is gathered at logging
// steps: means per optimizer step since the last one, but for what says "now". NaN: unknown or, for a GPU's values,
// that the rank has none. Plain values.

#include <limits>
#include <string>

#include "monitoring/step_times.h"

namespace dtrain::monitoring {

struct RankFacts {
  std::string node, device;
  int cores = 0, loader_threads = 0;
};

struct RankStats {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int rank = 0;
  StepTimes times = {};
  // Of the loader: seconds summed over its threads.
  double samples = kUnknown, bytes = kUnknown;
  double read_seconds = kUnknown, decode_seconds = kUnknown, augment_seconds = kUnknown;
  double queue = kUnknown;                      // share of the read-ahead that is ready, 0 to 1
  double cpu_seconds = kUnknown;                // of all threads of the rank
  double run_delay_seconds = kUnknown;          // ready to run, but no core was free
  double cores = kUnknown, threads = kUnknown;  // that it may use; that it has now
  double memory_used = kUnknown;                // bytes of the device now; on the CPU the resident set
  double gpu_utilization = kUnknown;            // 0 to 1
  double power = kUnknown;                      // watts
  double energy = kUnknown;                     // joules per step
  double temperature = kUnknown;                // degrees Celsius
  double sm_clock = kUnknown;                   // hertz
};

}  // namespace dtrain::monitoring
