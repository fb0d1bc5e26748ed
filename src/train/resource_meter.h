#pragma once

// What a rank and its host did between two logging steps: loader, cores and memory, as one value that travels to rank
// 0. NaN: this kernel does not tell. Thread-safety: the training thread alone, whose process it measures.

#include <cstdint>
#include <limits>

#include "data/loader/loader_stats.h"
#include "machine/counters.h"
#include "monitoring/gpu_window.h"

namespace dtrain::train {

struct ResourceSample {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double seconds = 0;                                    // on the wall clock
  double samples = 0, bytes = 0;                         // that the readers read
  double read = 0, decode = 0, augment = 0;              // seconds of the readers, summed
  double cpu = kUnknown;                                 // seconds of all threads
  double reader_cpu = kUnknown, compute_cpu = kUnknown;  // of the readers; of the threads that compute
  double run_delay = kUnknown;                           // the computing thread that waited longest for a core
  double throttled = kUnknown;                           // by the limit of the control group, per core that it may use
  double host_busy = kUnknown, host_steal = kUnknown;    // seconds of all cores of the host together
  double major_faults = kUnknown;
  double resident_bytes = kUnknown;             // now
  double device_bytes = kUnknown;               // of the device, now; on the CPU the resident set
  double cores = kUnknown, threads = kUnknown;  // that it may use; that it has now
  double queue = kUnknown;                      // mean share of the read-ahead that was ready
  monitoring::GpuUse gpu = {};
};

class ResourceMeter {
 public:
  // `cores`: that this rank may use.
  explicit ResourceMeter(int cores);

  // Since the last call, or since the meter was made. `loader`: Loader::stats() now.
  ResourceSample sample(const data::LoaderStats& loader);

 private:
  machine::CounterReader reader_;
  machine::ProcessCounters process_;
  machine::MachineCounters machine_;
  data::LoaderStats loader_;
  int cores_;
};

}  // namespace dtrain::train
