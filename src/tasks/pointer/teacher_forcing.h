#pragma once

// Which samples of an epoch use teacher forcing: their decoder receives the correct order (Bengio et al. 2015,
// "Scheduled sampling"). Decided by a keyed draw per sample, which does not depend on ranks, batches or resuming. Pure.

#include <cstdint>

#include "core/random.h"

namespace dtrain::tasks {

// Linear from `start` in epoch 0 to `end` in the last one.
inline double teacher_forcing_ratio(double start, double end, int64_t epoch, int64_t epochs) {
  if (epochs <= 1) return start;
  const double share = static_cast<double>(epoch < epochs ? epoch : epochs - 1) / static_cast<double>(epochs - 1);
  return start + (end - start) * share;
}

inline bool is_forced(uint64_t seed, int64_t epoch, int64_t sample_id, double ratio) {
  return static_cast<double>(uniform01(keyed(static_cast<uint64_t>(Purpose::kTeacherForcing), seed,
                                             static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample_id)))) < ratio;
}

}  // namespace dtrain::tasks
