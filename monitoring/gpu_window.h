#pragma once

// What the sensors of a GPU said since they were last asked for: the thread that reads them adds,
// and the training thread takes at logging steps. Thread-safety: all methods, from any thread.

#include <mutex>

#include "measure/rank_sample.h"
#include "monitoring/gpu_reader.h"

namespace dtrain::monitoring {

class GpuWindow {
 public:
  void set(const GpuSettings&);
  void add(const GpuReading&, double seconds);  // a reading that stands for the `seconds` before it
  // The quantities of the GPU, of the readings since the last call; unknown what the card does
  // not report.
  measure::Values take();

 private:
  // Weighted by time, over the readings that have the value.
  struct Mean {
    double sum = 0, seconds = 0;
    void add(double value, double for_seconds);
    double value() const;
  };

  // The values that are not means; they begin again with each call of take().
  struct Sums {
    double seconds = 0;                                     // that the readings stand for
    double energy = measure::kUnknown, energy_seconds = 0;  // joules, used in these seconds
    double temperature = measure::kUnknown;                 // degrees Celsius, the highest
    double highest_sm_clock = measure::kUnknown;            // hertz
    // Seconds with reduced clocks.
    double slowed_by_power = measure::kUnknown, slowed_by_heat = measure::kUnknown;
  };

  std::mutex mutex_;
  Sums sums_;
  Mean utilization_, power_, sm_clock_, working_sm_clock_;
  double full_sm_clock_ = measure::kUnknown;  // hertz, the highest of the run that nothing reduced
  GpuSettings settings_;
  double last_energy_ = measure::kUnknown;  // newest value of the card's energy counter, joules
};

}  // namespace dtrain::monitoring
