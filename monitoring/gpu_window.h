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
  // A reading that stands for the `seconds` before it. Returns its values, with what follows from
  // them and from the readings before.
  measure::Values add(const GpuReading&, double seconds);
  // The quantities of the GPU, of the readings since the last call; unknown what the card does
  // not report.
  measure::Values take();

 private:
  std::mutex mutex_;
  measure::Total total_;                    // since the last take(); its steps last a second
  measure::Values of_run_;                  // limits, and the highest clock that nothing reduced
  double last_energy_ = measure::kUnknown;  // newest value of the card's energy counter, joules
};

}  // namespace dtrain::monitoring
