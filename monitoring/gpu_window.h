#pragma once

// What the sensors of a GPU said since they were last asked for: the thread that reads them adds,
// and the training thread takes at logging steps. Thread-safety: all methods, from any thread.

#include <limits>
#include <mutex>

#include "monitoring/gpu_reader.h"

namespace dtrain::monitoring {

// Means over `seconds`, but for what says otherwise. NaN: the card does not report it, or there was
// no reading.
struct GpuUse {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;             // that the readings stand for
  double utilization = kUnknown;  // share of time with a kernel running, 0 to 1
  double power = kUnknown;        // watts
  double energy = kUnknown;       // joules, in all, of these seconds:
  double energy_seconds = 0;
  double temperature = kUnknown;       // degrees Celsius, the highest
  double sm_clock = kUnknown;          // hertz
  double working_sm_clock = kUnknown;  // hertz, while kernels ran: an idle GPU lowers its clock
  double full_sm_clock =
      kUnknown;  // hertz, the fastest of those in this run with nothing that slowed it
  double highest_sm_clock = kUnknown;  // hertz, that the card allows
  double slowed_by_power = kUnknown,
         slowed_by_heat = kUnknown;  // seconds with reduced clocks, in all
  double power_limit = kUnknown,
         default_power_limit = kUnknown;  // watts: in force, of the card as it was delivered
};

class GpuWindow {
 public:
  void set(const GpuSettings&);
  void add(const GpuReading&, double seconds);  // a reading that stands for the `seconds` before it
  GpuUse take();                                // and begins again

 private:
  // Weighted by time, over the readings that have the value.
  struct Mean {
    double sum = 0, seconds = 0;
    void add(double value, double for_seconds);
    double value() const;
  };

  std::mutex mutex_;
  GpuUse use_;  // what is no mean
  Mean utilization_, power_, sm_clock_, working_sm_clock_;
  double full_sm_clock_ = GpuUse::kUnknown;
  GpuSettings settings_;
  double last_energy_ = GpuUse::kUnknown;  // as the card counts it
};

}  // namespace dtrain::monitoring
