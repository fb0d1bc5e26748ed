#pragma once

// Which phase an epoch belongs to. Pure.

#include <cstdint>

#include "config/config.h"

namespace dtrain::tasks {

enum class SequencePhase { kEncoder, kClassifier };

// An iteration is encoder_epochs, then classifier_epochs. After the last of `iterations` (0: there is no last) all
// epochs are the classifier's.
inline SequencePhase phase_of(const config::Sequence& sequence, int64_t epoch) {
  const int64_t cycle = sequence.encoder_epochs + sequence.classifier_epochs;
  const bool over = sequence.iterations > 0 && epoch >= sequence.iterations * cycle;
  return !over && epoch % cycle < sequence.encoder_epochs ? SequencePhase::kEncoder : SequencePhase::kClassifier;
}

}  // namespace dtrain::tasks
