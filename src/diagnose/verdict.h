#pragma once

// What held a run back, from the phases of its ranks alone: the last line of a run. Pure.

#include <array>
#include <span>
#include <string>

#include "monitoring/step_stats.h"

namespace dtrain::diagnose {

using PhaseSeconds = std::array<double, monitoring::kPhases>;

struct Verdict {
  enum class Kind { kCompute, kData, kTransfer, kCommunication, kOptimizer, kUnknown } kind = Kind::kUnknown;
  double share = 0;  // of the training time of the worst rank, 0..1
  int worst_rank = 0;
  std::string text;  // "verdict: data-bound 62 % (8.1 of 13.0 ms waiting, worst rank 1): set --data.workers 8"
};

struct Settings {
  int64_t workers = 1;  // reader threads per rank
  int64_t cores = 1;    // cores a rank may use
  bool gpu = false;
  bool images = true;  // rows otherwise
  bool hue = true;     // images are turned around the hue circle
};

// `ranks`: seconds per phase of each rank over `steps` optimizer steps.
Verdict verdict(std::span<const PhaseSeconds> ranks, int64_t steps, const Settings&);

}  // namespace dtrain::diagnose
