#pragma once

// What limited the speed of a run, judged from the time that its ranks spent in each phase: the last line
// of a run. Pure.

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "monitoring/step_stats.h"

namespace dtrain::diagnose {

using PhaseSeconds = std::array<double, monitoring::kPhases>;

struct Verdict {
  enum class Kind { kCompute, kData, kTransfer, kCommunication, kOptimizer, kUnknown } kind = Kind::kUnknown;
  double share = 0;  // of the training time of the worst rank, 0 to 1
  int worst_rank = 0;
  std::string text;  // "verdict: data-bound 62 % (8.1 of 13.0 ms waiting, worst rank 1): set --data.workers 8"
};

// What the advice depends on.
struct Settings {
  int64_t workers = 1;  // reader threads per rank
  int64_t cores = 1;    // cores that a rank may use
  bool gpu = false;
  bool images = true;  // false: samples are rows
  bool hue = true;     // the augmentation changes the hue of images
};

// `ranks`: for each rank, the seconds in each phase over `steps` optimizer steps.
Verdict verdict(std::span<const PhaseSeconds> ranks, int64_t steps, const Settings&);

}  // namespace dtrain::diagnose
