#pragma once

// What rank 0 knows of each rank. The first struct does not change during a run; the second is
// gathered at logging steps: means per optimizer step since the last one, but for what says "now".
// NaN: unknown or, for a GPU's values, that the rank has none. Plain values.

#include <limits>
#include <string>

#include "monitoring/step_times.h"

namespace dtrain::monitoring {

struct RankFacts {
  std::string node, device;
  int cores = 0, loader_threads = 0;
};

// Of the whole host that a rank runs on, with all its processes: ranks of one host measure
// the same.
struct HostStats {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double cores = kUnknown;                      // of the machine
  double busy = kUnknown, idle = kUnknown;      // seconds of all cores together
  double io_wait = kUnknown, steal = kUnknown;  // likewise; steal: the hypervisor's
  double swapped_in = kUnknown;                 // bytes
  double read_again = kUnknown;   // bytes of files that the page cache had dropped shortly before
  double free_memory = kUnknown;  // bytes that this job can still take, now
};

// The PCIe link of a GPU, in lanes and generations: as it runs, and as the card could. 0: unknown.
struct PcieStats {
  int width = 0, card_width = 0;
  int generation = 0, card_generation = 0;
};

struct RankStats {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int rank = 0;
  StepTimes times = {};
  // Of the loader: seconds summed over its threads.
  double samples = kUnknown, bytes = kUnknown;
  double read_seconds = kUnknown, decode_seconds = kUnknown, augment_seconds = kUnknown;
  // The part of samples and of their time that half of the threads read alone.
  double few_samples = kUnknown, few_seconds = kUnknown;
  double empty_seconds = kUnknown,
         full_seconds = kUnknown;        // training waited for a batch; threads for room
  double queue = kUnknown;               // share of the read-ahead that is ready, 0 to 1
  double cpu_seconds = kUnknown;         // of all threads of the rank
  double compute_seconds = kUnknown;     // of those that compute: not of readers and communication
  double run_delay_seconds = kUnknown;   // ready to run, but no core was free
  double comm_delay_seconds = kUnknown;  // the same of the threads that communicate
  double throttled_seconds = kUnknown;   // by the limit of the control group, summed over its cores
  double cores = kUnknown, threads = kUnknown;  // that it may use; that it has now
  double memory_used = kUnknown;   // bytes of the device now; on the CPU the resident set
  double disk_bytes = kUnknown;    // that the rank read from disks
  double major_faults = kUnknown;  // pages of memory that had to be read from a disk
  HostStats host = {};
  PcieStats link = {};
  double gpu_utilization = kUnknown;  // 0 to 1
  double power = kUnknown;            // watts
  double energy = kUnknown;           // joules per step
  double temperature = kUnknown;      // degrees Celsius
  double sm_clock = kUnknown;         // hertz
  double slowed_by_power = kUnknown,
         slowed_by_heat = kUnknown;  // shares of the time with a reduced clock, 0 to 1

  double many_samples() const { return samples - few_samples; }
  double many_seconds() const {
    return read_seconds + decode_seconds + augment_seconds - few_seconds;
  }
};

}  // namespace dtrain::monitoring
